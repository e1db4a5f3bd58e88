package linux

import (
	"context"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// sshServer is the machine's own sshd.
type sshServer struct {
	root *files.Root
	dir  string
}

// settings is host.SSHSettings.
func (s sshServer) settings(ctx context.Context, user string) (host.SSHSettings, error) {
	program := machine.FindProgram(s.root, s.dir, "sshd")
	if program.Path == "" {
		return host.SSHSettings{}, fmt.Errorf("the machine does not have sshd: %w", host.ErrUnsupported)
	}
	text, err := program.Run(ctx, machine.LookLimit, "-T", "-C", "user="+user+",host=localhost,addr=127.0.0.1")
	if err != nil {
		return host.SSHSettings{}, err
	}
	var is host.SSHSettings
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "authorizedkeysfile":
			is.KeysFile = value
		case "authorizedkeyscommand":
			is.KeysCommand = value
		}
	}
	return is, nil
}
