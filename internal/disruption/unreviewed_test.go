package disruption_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// What nobody can review must not be code, and must not decide who may do what.
func TestContentsThatNobodyReviewsAreNotCode(t *testing.T) {
	sealed, secret, clear := machineconfig.SOPSURL("binary", []byte("x")), machineconfig.TemplateURL("${secret:a/b}"), "data:,x"
	for path, c := range map[string]struct {
		source string
		mode   int
		want   string
	}{
		"/opt/agent/run":                           {sealed, 0o755, "its mode makes it a program"},
		"/opt/agent/token":                         {sealed, 0o600, ""},
		"/opt/agent/clear":                         {clear, 0o755, ""},
		"/usr/local/bin/x":                         {sealed, 0o644, "programs are run"},
		"/etc/systemd/system/a.service.d/10.conf":  {secret, 0o644, "systemd runs"},
		"/etc/systemd/network/wg0.netdev":          {sealed, 0o640, ""},
		"/root/.ssh/authorized_keys":               {sealed, 0o600, "log in"},
		"/etc/ssh/ssh_host_ed25519_key":            {sealed, 0o600, ""},
		"/etc/sudoers.d/x":                         {sealed, 0o440, "become root"},
		"/etc/cron.d/x":                            {sealed, 0o644, "cron or logrotate"},
		"/var/home/core/.ssh/authorized_keys.d/me": {sealed, 0o600, "log in"},
		"/home/a/.config/systemd/user/a.service":   {sealed, 0o644, "systemd runs"},
		"/etc/yum.repos.d/a.repo":                  {sealed, 0o600, "trusted"},
		"/etc/kubernetes/manifests/x.yaml":         {sealed, 0o644, "kubelet runs"},
		"/etc/passwd":                              {sealed, 0o644, "accounts"},
		"/etc/shadow-":                             {sealed, 0o600, "accounts"},
		"/etc/ld.so.preload":                       {sealed, 0o644, "every program"},
		"/etc/profile.d/x.sh":                      {secret, 0o644, "every program"},
		"/etc/containers/registries.conf.d/a.conf": {sealed, 0o644, "trusted"},
		"/etc/containers/policy.json":              {sealed, 0o644, "trusted"},
		"/etc/containers/auth.json":                {secret, 0o600, ""},
	} {
		f := ign.File{
			Node:          ign.Node{Path: path},
			FileEmbedded1: ign.FileEmbedded1{Mode: &c.mode, Contents: ign.Resource{Source: &c.source}},
		}
		got := disruption.Unreviewed(machineconfig.Config{Ignition: ign.Config{
			Storage: ign.Storage{Files: []ign.File{f}},
		}})
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: got %v", path, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Why, c.want)):
			t.Errorf("%s: got %v, want %q", path, got, c.want)
		}
	}
	f := ign.File{
		Node:          ign.Node{Path: "/etc/app/x"},
		FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &sealed}},
	}
	for link, to := range map[string]string{
		"/etc/cron.d/y": "../app/x", "/etc/cron.d": "/etc/app", "/etc/systemd/system/z.service": "/etc/app/x",
	} {
		l := ign.Link{Node: ign.Node{Path: link}, LinkEmbedded1: ign.LinkEmbedded1{Target: &to}}
		got := disruption.Unreviewed(machineconfig.Config{Ignition: ign.Config{Storage: ign.Storage{
			Files: []ign.File{f}, Links: []ign.Link{l},
		}}})
		if len(got) != 1 || !strings.Contains(got[0].Why, "leads to /etc/app/x, whose content is encrypted") {
			t.Errorf("%s: got %v", link, got)
		}
	}
}
