package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// replacedEvery is the interval at which the daemon checks whether its binary or its unit file was replaced.
const replacedEvery = 10 * time.Second

// ownUnits are the paths of the unit files of the daemon's service. The config can replace these files.
var ownUnits = []string{
	"/etc/systemd/system/machine-config-daemon.service",
	"/etc/systemd/system/machine-config-daemon.service.d/*",
}

// awaitReplaced calls end when the program's file or a unit file of the service has changed. The config,
// `machine-config-daemon update`, a package or a sysext can change these files. Then systemd starts the service again.
// If the new program cannot run on this machine, awaitReplaced logs this, and the old program continues.
func awaitReplaced(ctx context.Context, every time.Duration, log *slog.Logger, end func()) {
	program, err := os.Executable()
	if err != nil {
		log.Warn("cannot find this program's file, so the daemon does not notice when it is replaced", "err", err)
		return
	}
	files := func() string { return fingerprint(append([]string{program}, ownUnits...)) }
	began, rejected := files(), ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := files()
		if now == began || now == rejected {
			continue
		}
		version, err := versionOf(ctx, program)
		if err != nil {
			rejected = now
			log.Error("the daemon's program was replaced by one that does not run; continuing with the old one",
				"program", program, "err", err)
			continue
		}
		log.Info("the daemon's program or unit was replaced: restarting", "program", program, "version", version)
		end()
		return
	}
}

// fingerprint returns a text about files that differs after a file was replaced.
func fingerprint(patterns []string) string {
	var b strings.Builder
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			continue // The patterns are constant, except for the path of the program.
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				fmt.Fprintf(&b, "%s %d %s %s\n", path, info.Size(), info.ModTime(), fs.FileMode.String(info.Mode()))
			}
		}
	}
	return b.String()
}
