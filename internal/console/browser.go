package console

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
)

// OpenBrowser opens an address in the user's browser. The error says that the machine has no program for that.
func OpenBrowser(ctx context.Context, address string) error {
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening the browser: %w", err)
	}
	// Some programs that open addresses run as long as the browser, and their exit codes say little.
	go func() { _ = cmd.Wait() }()
	return nil
}
