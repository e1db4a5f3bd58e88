package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/systemd"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// machine is the host that this process runs on.
type machine struct {
	t     *testing.T
	h     host.Host
	units *systemd.Units
}

// unit writes a unit file by the host's own port and has systemd read it.
func (m machine) unit(name, text string) {
	m.t.Helper()
	m.ok(m.h.Files.Write("/etc/systemd/system/"+name, host.Entry{Mode: 0o644}, []byte(text)))
	m.ok(m.units.DaemonReload(m.t.Context()))
	m.t.Cleanup(func() {
		sh(m.t, "systemctl stop '"+name+"' 2>/dev/null || :; systemctl reset-failed '"+name+"' 2>/dev/null || :")
	})
}

func (m machine) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) restart(name string) error { return m.units.Restart(m.t.Context(), name) }

func (m machine) reload(name string) error { return m.units.Reload(m.t.Context(), name) }

// says wants an error with all the words, and shows it.
func (m machine) says(err error, words ...string) {
	m.t.Helper()
	if err == nil {
		m.t.Fatalf("it says nothing, want %q", words)
	}
	m.t.Log(err)
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			m.t.Errorf("it says %q, want %q in it", err, w)
		}
	}
}

// is wants a unit's state, sub-state and result.
func (m machine) is(name, want string) {
	m.t.Helper()
	state, sub, result, err := m.units.Active(m.t.Context(), name)
	if got := strings.TrimSpace(state + " " + sub + " " + result); err != nil || got != want {
		m.t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

// enabled wants what systemctl says of a unit, and what the host says.
func (m machine) enabled(name, systemctl string, want bool) {
	m.t.Helper()
	if got := sh(m.t, "systemctl is-enabled '"+name+"' || :"); got != systemctl {
		m.t.Errorf("systemctl says that %s is %q, want %q", name, got, systemctl)
	}
	if is, err := m.h.Units.Status(m.t.Context(), name); err != nil || is.Enabled != want {
		m.t.Errorf("%s is enabled: %t, %v; want %t", name, is.Enabled, err, want)
	}
}

func pid(t *testing.T, name string) string { return sh(t, "systemctl show -P MainPID '"+name+"'") }

const server = "[Service]\nExecStart=/bin/sleep infinity\n"

func TestInsideServices(t *testing.T) {
	for _, c := range services {
		t.Run(c.says, func(t *testing.T) {
			h := open(t)
			sh(t, "rm -f /run/said")
			c.check(machine{t, h, h.Units.(*systemd.Units)})
		})
	}
	sh(t, "systemctl daemon-reload")
}

var services = []struct {
	says  string
	check func(machine)
}{
	{"a changed unit file counts after a daemon-reload", func(m machine) {
		m.unit("a.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo one >>/run/said'\n")
		m.ok(m.restart("a.service"))
		m.unit("a.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo two >>/run/said'\n")
		m.ok(m.restart("a.service"))
		if got := sh(m.t, "cat /run/said"); got != "one\ntwo" {
			m.t.Errorf("it said %q", got)
		}
	}},
	{"a restart makes a new process, and is waited for until the service is up", func(m machine) {
		m.unit("a.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
			"ExecStart=/bin/sh -c 'sleep 0.3; echo up >>/run/said'\n")
		m.ok(m.restart("a.service"))
		if got := sh(m.t, "cat /run/said"); got != "up" {
			m.t.Errorf("it said %q", got)
		}
		m.is("a.service", "active exited success")
	}},
	{"a reload leaves the process alone, and is waited for", func(m machine) {
		m.unit("a.service", server+"ExecReload=/bin/sh -c 'sleep 0.3; echo reloaded >>/run/said'\n")
		m.ok(m.restart("a.service"))
		before := pid(m.t, "a.service")
		m.ok(m.reload("a.service"))
		if got := sh(m.t, "cat /run/said"); got != "reloaded" || pid(m.t, "a.service") != before {
			m.t.Errorf("it said %q, process %s was %s", got, pid(m.t, "a.service"), before)
		}
		m.is("a.service", "active running success")
	}},
	{"a reload of a service that cannot is a restart", func(m machine) {
		m.unit("a.service", server)
		m.ok(m.restart("a.service"))
		before := pid(m.t, "a.service")
		m.ok(m.reload("a.service"))
		if pid(m.t, "a.service") == before {
			m.t.Error("it is the same process")
		}
	}},
	{"a reload of a service that does not run starts it", func(m machine) {
		m.unit("a.service", server+"ExecReload=/bin/false\n")
		m.ok(m.reload("a.service"))
		m.is("a.service", "active running success")
	}},
	{"a unit that fails is told with how it ended", func(m machine) {
		m.unit("a.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 3'\n")
		m.says(m.restart("a.service"), "ended as failed", "result exit-code", "exited with 3",
			"journalctl -u a.service")
		m.is("a.service", "failed failed exit-code")
	}},
	{"a unit that is killed is told with the signal", func(m machine) {
		m.unit("a.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'kill -9 $$$$'\n")
		m.says(m.restart("a.service"), "ended as failed", "result signal", "ended by signal 9")
	}},
	{"a reload that fails is told, and the service goes on", func(m machine) {
		m.unit("a.service", server+"ExecReload=/bin/false\n")
		m.ok(m.restart("a.service"))
		m.says(m.reload("a.service"), "reloading a.service", "ended as failed", "active (running)")
		m.is("a.service", "active running success")
	}},
	{"a unit that needs one that fails is told with the other", func(m machine) {
		m.unit("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n")
		m.unit("a.service", "[Unit]\nRequires=bad.service\nAfter=bad.service\n"+server)
		m.says(m.restart("a.service"), "ended as dependency", "it needs bad.service that is failed")
	}},
	{"a masked unit is refused, started or reloaded", func(m machine) {
		m.ok(m.h.Files.Link("/etc/systemd/system/vendor.service", host.Entry{Target: "/dev/null"}))
		m.ok(m.units.DaemonReload(m.t.Context()))
		m.says(m.restart("vendor.service"), "Unit vendor.service is masked.")
		m.says(m.reload("vendor.service"), "Unit vendor.service is masked.")
		m.says(m.h.Units.Enable(m.t.Context(), "vendor.service"), "masked")
		m.enabled("vendor.service", "masked", false)
		m.is("vendor.service", "inactive dead success")
	}},
	{"a unit that is not there is refused, and is inactive", func(m machine) {
		m.says(m.restart("none.service"), "Unit none.service not found.")
		m.is("none.service", "inactive dead")
	}},
	{"a unit whose file is gone while it runs cannot be restarted, and is stopped", func(m machine) {
		m.unit("gone.service", server)
		m.ok(m.restart("gone.service"))
		m.ok(m.h.Files.Remove("/etc/systemd/system/gone.service"))
		m.ok(m.units.DaemonReload(m.t.Context()))
		m.says(m.restart("gone.service"), "Unit gone.service not found.")
		m.is("gone.service", "active running")
		m.ok(m.units.Stop(m.t.Context(), "gone.service"))
		m.is("gone.service", "inactive dead")
		m.ok(m.units.Stop(m.t.Context(), "gone.service"))
	}},
	{"a unit that is masked while it runs is stopped", func(m machine) {
		m.unit("hidden.service", server)
		m.ok(m.restart("hidden.service"))
		m.ok(m.h.Files.Link("/etc/systemd/system/hidden.service", host.Entry{Target: "/dev/null"}))
		m.ok(m.units.DaemonReload(m.t.Context()))
		m.is("hidden.service", "active running success")
		m.ok(m.units.Stop(m.t.Context(), "hidden.service"))
		m.is("hidden.service", "inactive dead success")
	}},
	{"the units of an update that fails are stopped by its rollback, the failing one too", func(m machine) {
		texts := map[string]string{
			"runs.service":  server,
			"fails.service": "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=0.1\nStartLimitBurst=1000\n",
		}
		p, contents := plan.Plan{From: "a", To: "b"}, map[host.Digest][]byte{}
		for name, text := range texts {
			digest := host.DigestOf([]byte(text))
			contents[digest] = []byte(text)
			p.Steps = append(p.Steps, plan.Step{
				Verb: host.Write, Target: "/etc/systemd/system/" + name,
				After: host.Value{Entry: host.Entry{Kind: host.File, Mode: 0o644, Digest: digest}},
			})
		}
		p.Steps = append(p.Steps, plan.Step{Verb: host.DaemonReload},
			plan.Step{Verb: host.Restart, Target: "runs.service"},
			plan.Step{Verb: host.Restart, Target: "fails.service"})
		ill := errors.New("the machine is not healthy")
		r := apply.Runner{Host: m.h, HealthCheck: func(context.Context, host.Record) error {
			m.is("runs.service", "active running success")
			return ill
		}}
		done, err := r.Run(m.t.Context(), p, contents)
		if err != nil || done.End != apply.Old || !errors.Is(done.Why, ill) {
			m.t.Fatalf("%+v, %v", done, err)
		}
		for name := range texts {
			m.is(name, "inactive dead")
		}
		if left := sh(m.t, "systemctl list-units --all --no-legend 'runs.service' 'fails.service'"); left != "" {
			m.t.Errorf("systemd knows %s", left)
		}
	}},
	{"a unit file that makes no sense is refused", func(m machine) {
		m.unit("a.service", "[Service]\nType=simple\n")
		m.says(m.restart("a.service"), "Unit a.service has a bad unit file setting.")
	}},
	{"of k3s, an agent restarts the unit that it has, and a machine without k3s fails", func(m machine) {
		m.says(m.restart("k3s.service"), "Unit k3s.service not found.")
		m.unit("k3s-agent.service", server)
		m.ok(m.restart("k3s-agent.service"))
		before := pid(m.t, "k3s-agent.service")
		m.ok(errors.Join(m.restart("k3s.service"), m.restart("k3s-agent.service")))
		if pid(m.t, "k3s-agent.service") == before {
			m.t.Error("it is the same process")
		}
		sh(m.t, "systemctl stop k3s-agent.service")
	}},
	{"an instance of a template runs by itself", func(m machine) {
		m.unit("echo@.service", "[Service]\nExecStart=/bin/sh -c 'echo %i >>/run/said; exec sleep infinity'\n"+
			"[Install]\nWantedBy=multi-user.target\n")
		m.ok(m.units.Enable(m.t.Context(), "echo@one.service"))
		m.enabled("echo@one.service", "enabled", true)
		m.enabled("echo@two.service", "disabled", false)
		m.ok(m.restart("echo@one.service"))
		m.is("echo@one.service", "active running success")
		m.is("echo@two.service", "inactive dead success")
		sh(m.t, "systemctl stop echo@one.service")
	}},
	{"a static unit runs and cannot be enabled", func(m machine) {
		m.unit("a.service", server)
		m.enabled("a.service", "static", false)
		m.says(m.h.Units.Enable(m.t.Context(), "a.service"), "no [Install] section")
		m.ok(m.restart("a.service"))
	}},
	{"a unit that hangs is cancelled at its caller's deadline, and can be tried again", func(m machine) {
		m.unit("a.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c '[ -e /run/said ] || sleep infinity'\n")
		ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
		defer cancel()
		m.says(m.units.Restart(ctx, "a.service"), "was cancelled", "activating (start)")
		if jobs := sh(m.t, "systemctl list-jobs --no-legend"); jobs != "" && !strings.Contains(jobs, "No jobs") {
			m.t.Errorf("the queue has %s", jobs)
		}
		sh(m.t, "touch /run/said")
		m.ok(m.restart("a.service"))
	}},
	{"a unit that hangs is ended by systemd where the unit has a limit", func(m machine) {
		m.unit("a.service", "[Service]\nType=notify\nTimeoutStartSec=1\nExecStart=/bin/sleep infinity\n")
		m.says(m.restart("a.service"), "ended as failed", "result timeout")
	}},
	{
		"enabled at run time only is not enabled for the daemon, as for systemctl's own enable and disable",
		func(m machine) {
			m.unit("a.service", server+"[Install]\nWantedBy=multi-user.target\n")
			sh(m.t, "systemctl enable --runtime a.service")
			m.enabled("a.service", "enabled-runtime", false)
			m.ok(m.units.Enable(m.t.Context(), "a.service"))
			m.enabled("a.service", "enabled", true)
			m.ok(m.units.Disable(m.t.Context(), "a.service"))
			m.enabled("a.service", "enabled-runtime", false)
			sh(m.t, "systemctl disable --runtime a.service")
		},
	},
	{"a unit of a generator runs and cannot be enabled", func(m machine) {
		sh(m.t, `mkdir -p /etc/systemd/system-generators
			printf '#!/bin/sh\nprintf "[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n" >$1/made.service\n' >/etc/systemd/system-generators/lab
			chmod 755 /etc/systemd/system-generators/lab`)
		m.ok(m.units.DaemonReload(m.t.Context()))
		m.enabled("made.service", "generated", false)
		m.says(m.h.Units.Enable(m.t.Context(), "made.service"), "made.service")
		m.ok(m.restart("made.service"))
		m.is("made.service", "active running success")
		sh(m.t, "systemctl stop made.service; rm /etc/systemd/system-generators/lab; systemctl daemon-reload")
	}},
	{"a systemd that starts anew is connected to again", func(m machine) {
		m.unit("a.service", server)
		m.ok(m.restart("a.service"))
		sh(m.t, "systemctl daemon-reexec")
		m.ok(m.restart("a.service"))
		m.is("a.service", "active running success")
	}},
	{"services are restarted while the D-Bus daemon is not there", func(m machine) {
		m.unit("a.service", server)
		sh(m.t, "systemctl stop dbus.socket dbus.service")
		m.t.Cleanup(func() { sh(m.t, "systemctl start dbus.socket dbus.service && systemctl restart systemd-logind") })
		m.ok(m.units.DaemonReload(m.t.Context()))
		m.ok(m.restart("a.service"))
		m.says(m.h.Power.Reboot(m.t.Context(), "why"), "asking logind for a reboot")
	}},
}
