//go:build unix

package embedpg

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// identity is the user that Postgres runs as. Postgres refuses to run as root.
type identity struct {
	name  string
	attrs syscall.SysProcAttr // for a process that runs as this user
}

// otherUsers returns the identities of those of the named users that exist and are not root.
func otherUsers(names ...string) []identity {
	var ids []identity
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}

		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			cred := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			ids = append(ids, identity{"user " + name, syscall.SysProcAttr{Credential: cred}})
		}
	}
	return ids
}

// identities lists the identities to try, best first.
func identities(data string) []identity {
	thisUser := identity{name: "this user"}
	if euid := os.Geteuid(); euid != 0 {
		if _, err := user.LookupId(strconv.Itoa(euid)); err != nil {
			// initdb needs a passwd entry, which containers often lack.
			return append(userNamespace(), thisUser)
		}
		return []identity{thisUser}
	}

	others := otherUsers("postgres", "nobody")
	owner := ownerOf(data)
	if owner <= 0 {
		return append(userNamespace(), others...)
	}

	// Only the owner can open existing data.
	if u, err := user.LookupId(strconv.Itoa(owner)); err == nil {
		return append(otherUsers(u.Username), others...)
	}
	return others
}

// chown makes id the owner of the paths. If id is the user of this program, it does nothing.
func (id identity) chown(paths ...string) error {
	cred := id.attrs.Credential
	if cred == nil {
		return nil
	}

	for _, path := range paths {
		if id.owns(path) {
			continue
		}
		if err := os.Lchown(path, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// chownAll makes id the owner of dir, if it exists, and of everything in it.
func (id identity) chownAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path == dir && errors.Is(err, fs.ErrNotExist) {
			return fs.SkipAll
		}
		return errors.Join(err, id.chown(path))
	})
}

// owns reports whether path belongs to another user that is id.
func (id identity) owns(path string) bool {
	return id.attrs.Credential != nil && ownerOf(path) == int(id.attrs.Credential.Uid)
}

// ownerOf returns the uid of the owner of path, or -1. It does not follow a symbolic link.
func ownerOf(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
