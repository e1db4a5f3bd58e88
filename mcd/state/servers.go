package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// ServersPath is the file with the addresses and the CA of the machine-config-servers. A daemon that starts without the
// API server uses this file.
const ServersPath = host.StateDir + "/server.json"

// LoadServers reads ServersPath. LoadServers returns nil if the file does not exist.
func LoadServers(files host.Files) ([]byte, error) {
	text, err := files.Read(ServersPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ServersPath, err)
	}
	return text, nil
}

// SaveServers writes ServersPath. Only root can read the file.
func SaveServers(ctx context.Context, h host.Host, text []byte) error {
	return Files{h}.Write(ctx, ServersPath, text)
}
