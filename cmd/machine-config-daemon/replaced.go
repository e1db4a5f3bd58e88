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

// replacedEvery is how often the service checks whether its binary or its unit was replaced.
const replacedEvery = 10 * time.Second

// ownUnits are the files that systemd runs the service from. The config can replace them.
var ownUnits = []string{"/etc/systemd/system/machine-config-daemon.service", "/etc/systemd/system/machine-config-daemon.service.d/*"}

// awaitReplaced calls end when the program's file or a unit file of the service has changed. The config, `machine-config-daemon update`,
// a package or a sysext can change it. Then systemd starts the service again. A program that does not run on
// this machine is logged, and this one continues.
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
			log.Error("the daemon's program was replaced by one that does not run; continuing with the old one", "program", program, "err", err)
			continue
		}
		log.Info("the daemon's program or unit was replaced: restarting", "program", program, "version", version)
		end()
		return
	}
}

// fingerprint describes files by what changes when they are replaced.
func fingerprint(patterns []string) string {
	var b strings.Builder
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			continue // the patterns are constant but for the program's path
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				fmt.Fprintf(&b, "%s %d %s %s\n", path, info.Size(), info.ModTime(), fs.FileMode.String(info.Mode()))
			}
		}
	}
	return b.String()
}
