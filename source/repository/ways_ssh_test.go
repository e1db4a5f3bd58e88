package repository_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// sshd is OpenSSH's own server. It runs once for each connection, so it needs no port of its own.
type sshd struct {
	addr, account string
	known         string // the line of known_hosts
	hostKey       string // the public host key
	dir           string
}

// keygen creates a key pair, and returns the private and the public key.
func keygen(t *testing.T, args ...string) (private, public string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", append([]string{"-q", "-f", file, "-C", ""}, args...)...).
		CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
	return readFile(t, file), strings.TrimSpace(readFile(t, file+".pub"))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// newSSHD starts a server that lets the account of this process in with the authorized keys. Settings are lines of
// sshd_config.
func newSSHD(t *testing.T, authorized []string, settings ...string) *sshd {
	t.Helper()
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the ways over ssh need OpenSSH's server: run make setup as root, or apt-get install "+
			"openssh-server (%v)", err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd locks itself into this directory
			t.Fatal(err)
		}
	}
	s := &sshd{account: me.Username, dir: t.TempDir()}
	private, public := keygen(t, "-t", "ed25519", "-N", "")
	s.hostKey = public
	config := writeFile(t, filepath.Join(s.dir, "sshd_config"), strings.Join(append(settings,
		"HostKey "+writeFile(t, filepath.Join(s.dir, "host"), private),
		"AuthorizedKeysFile "+writeFile(t, filepath.Join(s.dir, "authorized_keys"), strings.Join(authorized, "\n")+
			"\n"),
		"UsePAM no", "StrictModes no", "PermitRootLogin prohibit-password", "PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"PidFile none", "AcceptEnv GIT_PROTOCOL", "LogLevel ERROR", "PrintMotd no", "PermitUserRC no"), "\n"))
	s.addr = listen(t, func(c net.Conn) {
		file, err := c.(*net.TCPConn).File()
		if err != nil {
			return
		}
		defer file.Close()
		command := exec.Command(program, "-i", "-e", "-f", config)
		command.Stdin, command.Stdout = file, file
		_ = command.Run()
	})
	s.known = s.line(public)
	return s
}

// line is a line of known_hosts for the server.
func (s *sshd) line(key string) string {
	host, port, _ := net.SplitHostPort(s.addr)
	return fmt.Sprintf("[%s]:%s %s\n", host, port, key)
}

func (s *sshd) url(path string) string { return "ssh://" + s.account + "@" + s.addr + path }

// sshWays has keys, accounts, paths and commands, with OpenSSH's own server.
func sshWays(t *testing.T, root string) chapter {
	private, public := keygen(t, "-t", "ed25519", "-N", "")
	rsa, rsaPublic := keygen(t, "-t", "rsa", "-b", "3072", "-N", "")
	oldRSA, oldRSAPublic := keygen(t, "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "S3CR3T passphrase")
	ecdsa, ecdsaPublic := keygen(t, "-t", "ecdsa", "-b", "384", "-N", "")
	locked, lockedPublic := keygen(t, "-t", "ed25519", "-N", "S3CR3T passphrase")
	stranger, _ := keygen(t, "-t", "ed25519", "-N", "")
	forced := func(command string) (string, string) {
		private, public := keygen(t, "-t", "ed25519", "-N", "")
		return private, `command="` + command + `" ` + public
	}
	text, textLine := forced("echo Welcome to this server; exec sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"")
	errorText, errorTextLine := forced("echo Welcome to this server >&2; exec sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"")
	closed, closedLine := forced("echo This account is not available.; exit 1")
	denied, deniedLine := forced("echo FATAL: R any cfg deploy DENIED by fallthru >&2; exit 1")
	silent, silentLine := forced("exit 0")
	authorized := []string{
		public, rsaPublic, oldRSAPublic, ecdsaPublic, lockedPublic, textLine, errorTextLine,
		closedLine, deniedLine, silentLine,
	}
	s := newSSHD(t, authorized)
	greeting := newSSHD(t, authorized, "Banner "+writeFile(t, filepath.Join(t.TempDir(), "banner"),
		"Authorized users only\n"))
	both := newSSHD(t, authorized, "AuthenticationMethods publickey,password", "PasswordAuthentication yes")
	old := newSSHD(t, authorized, "KexAlgorithms diffie-hellman-group1-sha1")
	notRSA := newSSHD(t, authorized, "PubkeyAcceptedAlgorithms ssh-ed25519")
	own := issue(t, soon(), "127.0.0.1")
	web := serveTLS(t, backend(t, root), own, "")
	secret := chapterSecret{"identity": private, "known_hosts": s.known + greeting.known + both.known + old.known +
		notRSA.known}
	repo := root + "/cfg"
	names := data{
		s.addr: "SSHD", greeting.addr: "SSHD", both.addr: "SSHD", old.addr: "SSHD", notRSA.addr: "SSHD",
		web: "WEB", root: "/srv", s.account + "@": "ACCOUNT@",
	}
	return chapter{"ssh: keys, accounts and commands", names, []way{
		{name: "A key without a passphrase (ed25519)", url: s.url(repo), secret: secret.with()},
		{name: "A key without a passphrase (rsa)", url: s.url(repo), secret: secret.with("identity", rsa)},
		{name: "A key without a passphrase (ecdsa)", url: s.url(repo), secret: secret.with("identity", ecdsa)},
		{name: "A key with a passphrase", url: s.url(repo), secret: secret.with("identity", locked, "password", "S3CR3T passphrase")},
		{name: "A key with a passphrase, in the older PEM form", url: s.url(repo), secret: secret.with("identity", oldRSA, "password", "S3CR3T passphrase")},
		{name: "A key without a line break at its end", url: s.url(repo), secret: secret.with("identity", strings.TrimSpace(private))},
		{name: "A key with the line breaks of Windows", url: s.url(repo), secret: secret.with("identity", strings.ReplaceAll(private, "\n", "\r\n"))},
		{name: "The second of two keys", url: s.url(repo), secret: secret.with("identity", stranger, "identity.2", private)},
		{name: "The fifth of five keys", url: s.url(repo), secret: secret.with("identity", stranger, "identity.2", stranger, "identity.3", stranger, "identity.4", stranger, "identity.5", private)},
		{name: "The second of two keys, with a passphrase", url: s.url(repo), secret: secret.with("identity", stranger, "identity.2", locked, "password", "S3CR3T passphrase")},
		{name: "A slash at the end of the URL", url: s.url(repo + "/"), secret: secret.with()},
		{name: "A path with a space and an apostrophe", url: s.url(root + "/a%20b/it's.git"), secret: secret.with()},
		{name: "A server that shows a banner", url: greeting.url(repo), secret: secret.with()},
		{name: "A forced command that writes a greeting to the error output", url: s.url(repo), secret: secret.with("identity", errorText)},
		{name: "A forced command that writes a greeting to the output", url: s.url(repo), secret: secret.with("identity", text)},
		{name: "A forced command that ends with a text", url: s.url(repo), secret: secret.with("identity", closed)},
		{name: "A forced command that refuses", url: s.url(repo), secret: secret.with("identity", denied)},
		{name: "A forced command that does nothing", url: s.url(repo), secret: secret.with("identity", silent)},
		{name: "A wrong path", url: s.url(root + "/nope"), secret: secret.with()},
		{name: "An account that does not exist", url: "ssh://nobody-here@" + s.addr + repo, secret: secret.with()},
		{name: "A key that the server does not know", url: s.url(repo), secret: secret.with("identity", stranger)},
		{name: "Two keys that the server does not know", url: s.url(repo), secret: secret.with("identity", stranger, "identity.2", stranger)},
		{name: "A key of a type that the server does not accept", url: notRSA.url(repo), secret: secret.with("identity", rsa)},
		{name: "A server that requires a password as well", url: both.url(repo), secret: secret.with()},
		{name: "A server that knows outdated algorithms only", url: old.url(repo), secret: secret.with()},
		{name: "A wrong passphrase", url: s.url(repo), secret: secret.with("identity", locked, "password", "S3CR3T wrong")},
		{name: "A wrong passphrase of a key in the older PEM form", url: s.url(repo), secret: secret.with("identity", oldRSA, "password", "S3CR3T wrong")},
		{name: "No passphrase", url: s.url(repo), secret: secret.with("identity", locked)},
		{name: "A public key as identity", url: s.url(repo), secret: secret.with("identity", public)},
		{name: "A damaged key", url: s.url(repo), secret: secret.with("identity", strings.Replace(private, "b3BlbnNzaC1r", "S3CR3TS3CR3T", 1))},
		{name: "A key that is cut", url: s.url(repo), secret: secret.with("identity", private[:150])},
		{name: "A damaged second key", url: s.url(repo), secret: secret.with("identity.2", "S3CR3T")},
		{name: "A sixth key", url: s.url(repo), secret: secret.with("identity.6", private)},
		{name: "A second key without a first one", url: s.url(repo), secret: secret.with("identity", "", "identity.2", private)},
		{name: "No Secret", url: s.url(repo)},
		{name: "A password in the URL", url: "ssh://" + s.account + ":S3CR3T@" + s.addr + repo, secret: secret.with()},
		{name: "The address of a server that speaks https", url: "ssh://git@" + web + "/cfg", secret: secret.with()},
		{name: "An address where nothing listens", url: "ssh://git@127.0.0.1:1/cfg", secret: secret.with()},
	}, nil}
}

// hostKeyWays has the lines of known_hosts, with OpenSSH's own server.
func hostKeyWays(t *testing.T, root string) chapter {
	private, public := keygen(t, "-t", "ed25519", "-N", "")
	_, otherKey := keygen(t, "-t", "ed25519", "-N", "")
	_, ecdsaKey := keygen(t, "-t", "ecdsa", "-b", "256", "-N", "")
	s := newSSHD(t, []string{public})
	signed, authority := withHostCertificate(t, []string{public}, "127.0.0.1")
	misnamed, otherAuthority := withHostCertificate(t, []string{public}, "git.example.org")
	hashed := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), s.known)
	if out, err := exec.Command("ssh-keygen", "-H", "-f", hashed).CombinedOutput(); err != nil {
		t.Fatalf("hashing known_hosts: %v\n%s", err, out)
	}
	repo := root + "/cfg"
	secret := chapterSecret{"identity": private, "known_hosts": s.known}
	names := data{
		s.addr: "SSHD", signed.addr: "SIGNED", misnamed.addr: "MISNAMED", root: "/srv",
		s.account + "@": "ACCOUNT@",
	}
	return chapter{"ssh: host keys", names, []way{
		{name: "The host key in known_hosts", url: s.url(repo), secret: secret.with()},
		{name: "Hashed names in known_hosts", url: s.url(repo), secret: secret.with("known_hosts", readFile(t, hashed))},
		{name: "Comments, and keys of two types", url: s.url(repo), secret: secret.with("known_hosts", "# hosts\n\n"+s.line(ecdsaKey)+s.known)},
		{name: "The authority of a host certificate (@cert-authority)", url: signed.url(repo), secret: secret.with("known_hosts", "@cert-authority "+signed.line(authority))},
		{name: "The host key of a server that also has a certificate", url: signed.url(repo), secret: secret.with("known_hosts", signed.known)},
		{name: "A host certificate of another authority", url: signed.url(repo), secret: secret.with("known_hosts", "@cert-authority "+signed.line(otherKey))},
		{name: "A host certificate for another name", url: misnamed.url(repo), secret: secret.with("known_hosts", "@cert-authority "+misnamed.line(otherAuthority))},
		{name: "Another host's line", url: s.url(repo), secret: secret.with("known_hosts", "git.example.org "+s.hostKey)},
		{name: "The line of port 22", url: s.url(repo), secret: secret.with("known_hosts", "127.0.0.1 "+s.hostKey)},
		{name: "Another key for the host", url: s.url(repo), secret: secret.with("known_hosts", s.line(otherKey))},
		{name: "A key of another type for the host", url: s.url(repo), secret: secret.with("known_hosts", s.line(ecdsaKey))},
		{name: "A revoked key", url: s.url(repo), secret: secret.with("known_hosts", "@revoked "+s.line(s.hostKey)+s.known)},
		{name: "No known_hosts", url: s.url(repo), secret: secret.with("known_hosts", "")},
		{name: "An empty known_hosts", url: s.url(repo), secret: secret.with("known_hosts", " \n")},
		{name: "A line that is not one of known_hosts", url: s.url(repo), secret: secret.with("known_hosts", "S3CR3T")},
		{name: "The fingerprint in place of the key", url: s.url(repo), secret: secret.with("known_hosts", s.line("ssh-ed25519 SHA256:S3CR3T"))},
	}, nil}
}

// withHostCertificate starts a server whose host key has a certificate for a name, and returns the authority's public
// key.
func withHostCertificate(t *testing.T, authorized []string, name string) (*sshd, string) {
	t.Helper()
	dir := t.TempDir()
	ca, authority := keygen(t, "-t", "ed25519", "-N", "")
	caFile := writeFile(t, filepath.Join(dir, "ca"), ca)
	private, public := keygen(t, "-t", "ed25519", "-N", "")
	key := writeFile(t, filepath.Join(dir, "signed"), private)
	writeFile(t, key+".pub", public+"\n")
	if out, err := exec.Command("ssh-keygen", "-q", "-s", caFile, "-I", "host", "-h", "-n", name, key+".pub").
		CombinedOutput(); err != nil {
		t.Fatalf("signing the host key: %v\n%s", err, out)
	}
	s := newSSHD(t, authorized, "HostKey "+key, "HostCertificate "+key+"-cert.pub")
	s.known = s.line(public)
	return s, authority
}
