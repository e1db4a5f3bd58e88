package main

import (
	"github.com/bunsen-os/bunsen/mcd/agent/contentsync"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/fetch/web"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// fetcher returns what downloads the remote files of configs onto a machine.
func fetcher(h host.Host) *fetch.Fetcher {
	return contentsync.Fetcher(h, func(a fetch.Access) fetch.Web {
		return web.New(a, "machine-config-daemon/"+versionText(), web.Stall, web.Rate)
	})
}
