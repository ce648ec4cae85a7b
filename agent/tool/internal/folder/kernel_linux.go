package folder

import (
	"os"
	"slices"
	"syscall"
)

// kernelSystems are the file systems whose files are made by the kernel: they show memory, variables and
// settings of programs and of the machine.
var kernelSystems = []uint32{
	0x9fa0,     // proc
	0x62656572, // sysfs
	0x64626720, // debugfs
	0x74726163, // tracefs
	0x73636673, // securityfs
	0x62656570, // configfs
	0x6165676c, // pstore
	0xde5e81e4, // efivarfs
	0xcafe4a11, // bpf
	0x27e0eb,   // cgroup
	0x63677270, // cgroup2
	0xf97cff8c, // selinuxfs
}

// ofKernel reports whether an open file is made by the kernel when it is read.
func ofKernel(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return true
	}

	made := true
	err = raw.Control(func(fd uintptr) {
		var at syscall.Statfs_t
		made = syscall.Fstatfs(int(fd), &at) != nil ||
			slices.Contains(kernelSystems, uint32(at.Type)) //nolint:gosec // the kernel's numbers have 32 bits
	})
	return made || err != nil
}
