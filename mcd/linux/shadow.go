package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// ShadowUtils changes users and groups with the machine's own useradd, usermod, userdel, groupadd, groupmod, groupdel
// and chpasswd: the tools lock the files, preserve labels and limits, and update subuid. ShadowUtils implements
// host.Passwd.
type ShadowUtils struct {
	AccountFiles
	// dir is the mount point of the machine's root.
	dir string
	// run runs a tool with a text on its standard input.
	run func(ctx context.Context, stdin string, tool string, args ...string) error
}

// NewShadowUtils returns a ShadowUtils that runs the machine's tools inside its root. If the root has no tools,
// ShadowUtils runs the tools outside of the root with --root.
func NewShadowUtils(root *files.Root, dir string) ShadowUtils {
	return ShadowUtils{AccountFiles: AccountFiles{root}, dir: dir, run: func(ctx context.Context, stdin, tool string,
		args ...string,
	) error {
		return runTool(ctx, dir, stdin, tool, args)
	}}
}

// runTool runs one of the tools. The error of runTool contains the output of the tool, which never has a password.
func runTool(ctx context.Context, dir, stdin, tool string, args []string) error {
	cmd := exec.CommandContext(ctx, "/usr/sbin/"+tool, args...)
	if filepath.Clean(dir) != "/" {
		inside, err := exec.LookPath(filepath.Join(dir, "usr/sbin", tool))
		switch {
		case err == nil && inside != "":
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
			cmd.Dir, cmd.Err = "/", nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		default:
			cmd.Args = slices.Insert(cmd.Args, 1, "--root", dir)
		}
	}
	var out bytes.Buffer
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	if err := cmd.Run(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w: this machine has no shadow-utils, so its users and groups cannot be changed",
				tool, host.ErrUnsupported)
		}
		return fmt.Errorf("%s: %w: %s", tool, err, strings.Join(strings.Fields(out.String()), " "))
	}
	return nil
}

// SetUser implements host.Passwd.
func (s ShadowUtils) SetUser(ctx context.Context, name string, want host.User, password []byte) error {
	is, hash, err := s.User(ctx, name)
	if err != nil || is == want {
		return err
	}
	if !want.There {
		return s.dropUser(ctx, name)
	}
	tool, args := userArgs(is, want)
	if len(args) > 0 {
		if err := s.run(ctx, "", tool, append(args, "--", name)...); err != nil {
			return err
		}
	}
	if is.There && bytes.Equal(hash, password) {
		return nil
	}
	if bytes.ContainsAny(password, ":\n") {
		return fmt.Errorf("user %q: the value is not a valid password hash", name)
	}
	return s.run(ctx, name+":"+string(password)+"\n", "chpasswd", "--encrypted")
}

// userArgs returns the arguments that create a user, or that change the differing attributes. Other steps create home
// directories.
func userArgs(is, want host.User) (tool string, args []string) {
	tool, home := "usermod", "--home"
	if !is.There {
		tool, home = "useradd", "--home-dir"
		args = []string{"--no-create-home", "--no-log-init", "--no-user-group"}
		if want.UID < firstPerson {
			args = append(args, "--system")
		}
	}
	for _, f := range []struct{ flag, is, want string }{
		{"--uid", strconv.Itoa(is.UID), strconv.Itoa(want.UID)},
		{"--gid", strconv.Itoa(is.GID), strconv.Itoa(want.GID)},
		{"--comment", is.Gecos, want.Gecos},
		{home, is.Home, want.Home},
		{"--shell", is.Shell, want.Shell},
		{"--groups", is.Groups, want.Groups},
	} {
		if f.is != f.want || !is.There && f.want != "" {
			args = append(args, f.flag, f.want)
		}
	}
	return tool, args
}

// firstPerson is the lowest UID of a user who is not part of the system.
const firstPerson = 1000

// dropUser removes a user, even one who is logged in, so that users cannot keep their accounts by staying logged in.
// dropUser restores the group of the same name, which userdel removes too.
func (s ShadowUtils) dropUser(ctx context.Context, name string) error {
	own, err := s.Group(ctx, name)
	if err != nil {
		return err
	}
	if err := s.run(ctx, "", "userdel", "--force", "--", name); err != nil {
		return err
	}
	own.Members = host.JoinNames(slices.DeleteFunc(host.Names(own.Members), func(m string) bool { return m == name }))
	if !own.There {
		return nil
	}
	return s.SetGroup(ctx, name, own)
}

// SetGroup implements host.Passwd.
func (s ShadowUtils) SetGroup(ctx context.Context, name string, want host.Group) error {
	is, err := s.Group(ctx, name)
	gid := strconv.Itoa(want.GID)
	switch {
	case err != nil:
		return err
	case !want.There && !is.There:
		return nil
	case !want.There:
		return s.run(ctx, "", "groupdel", "--", name)
	case !is.There:
		err = s.run(ctx, "", "groupadd", "--gid", gid, "--", name)
	case is.GID != want.GID:
		err = s.run(ctx, "", "groupmod", "--gid", gid, "--", name)
	}
	for _, m := range host.Names(want.Members) {
		if err == nil && !slices.Contains(host.Names(is.Members), m) {
			err = s.run(ctx, "", "usermod", "--append", "--groups", name, "--", m)
		}
	}
	return err
}
