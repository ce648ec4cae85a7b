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

// identity is whom Postgres runs as: it refuses to be root.
type identity struct {
	name       string
	attributes func() *syscall.SysProcAttr
	chown      bool // files have to be given to uid and gid
	uid, gid   int
}

func ourselves() identity {
	return identity{
		name:       "this user",
		attributes: func() *syscall.SysProcAttr { return &syscall.SysProcAttr{} },
	}
}

func otherUser(u *user.User) (identity, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return identity{}, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return identity{}, err
	}
	return identity{
		name: "user " + u.Username,
		attributes: func() *syscall.SysProcAttr {
			return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		},
		chown: true, uid: uid, gid: gid,
	}, nil
}

// identities lists whom to try, best first. The owner of existing data comes first,
// because nobody else can open it.
func identities(data string) []identity {
	euid := os.Geteuid()
	if euid != 0 {
		if _, err := user.LookupId(strconv.Itoa(euid)); err != nil {
			// initdb insists on a passwd entry, which containers often lack.
			return append(userNamespace(), ourselves())
		}
		return []identity{ourselves()}
	}

	var ids []identity
	names := []string{"postgres", "nobody"}
	if owner, ok := ownerOf(data); ok && owner != 0 {
		if u, err := user.LookupId(strconv.Itoa(owner)); err == nil {
			names = append([]string{u.Username}, names...)
		}
	} else {
		ids = userNamespace()
	}
	for _, name := range names {
		if u, err := user.Lookup(name); err == nil {
			if id, err := otherUser(u); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// give makes id the owner of the paths, where that is needed.
func (id identity) give(paths ...string) error {
	if !id.chown {
		return nil
	}
	for _, path := range paths {
		if owner, ok := ownerOf(path); ok && owner == id.uid {
			continue
		}
		if err := os.Lchown(path, id.uid, id.gid); err != nil {
			return err
		}
	}
	return nil
}

// giveAll does so with dir, if there is one, and with everything in it.
func (id identity) giveAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path == dir && errors.Is(err, fs.ErrNotExist) {
			return fs.SkipAll
		}
		return errors.Join(err, id.give(path))
	})
}

func ownerOf(path string) (uid int, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
