package join_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/google/go-cmp/cmp"
	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

const someToken = "bunsen.bbbbbbbbbb.AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"

// authority makes the certificate of a CA such as the server's own.
func authority(t testing.TB, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Unix(1<<32, 0),
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// whole is a pointer with everything that version v can say.
func whole(t testing.TB, v mcs.Version) join.Pointer {
	return join.Pointer{
		Pool: "worker", Server: "https://api.example.com:22623", Token: someToken, Version: v,
		Gzip: !strings.HasPrefix(string(v), "2.") && v != mcs.V3_0,
		CA:   append(authority(t, "bunsen machine-config-server CA"), authority(t, "the next one")...),
	}
}

func ignition(t testing.TB, p join.Pointer) string {
	t.Helper()
	out, err := p.Ignition()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What is written down in clouds and on boot servers stays as it is.
func TestWhatAPointerReads(t *testing.T) {
	for sentence, c := range map[string]struct {
		pointer join.Pointer
		want    string
	}{
		"since 3.1.0 the token is in a header": {
			join.Pointer{
				Pool: "worker", Server: "https://api.example.com:22623", Token: someToken,
				Version: join.DefaultPointerVersion,
			},
			`{"ignition":{"version":"3.1.0","config":{"merge":[{"source":"https://api.example.com:22623/config/worker","httpHeaders":[{"name":"Authorization","value":"Bearer ` + someToken + `"}]}]}}}`,
		},
		"3.0.0 has it in the URL": {
			join.Pointer{
				Pool: "worker", Server: "https://api.example.com:22623/", Token: someToken,
				Version: mcs.V3_0,
			},
			`{"ignition":{"version":"3.0.0","config":{"merge":[{"source":"https://bbbbbbbbbb:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE@api.example.com:22623/config/worker"}]}}}`,
		},
		"2.2.0 appends": {
			join.Pointer{Pool: "worker", Server: "https://[2001:db8::1]:22623", Token: someToken, Version: mcs.V2_2},
			`{"ignition":{"version":"2.2.0","config":{"append":[{"source":"https://bbbbbbbbbb:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE@[2001:db8::1]:22623/config/worker"}]}}}`,
		},
		"an open server is asked without a token": {
			join.Pointer{Pool: "edge.site-1", Server: "https://boot.example.com/os", Version: mcs.V3_5},
			`{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"https://boot.example.com/os/config/edge.site-1"}]}}}`,
		},
		"a compressed config is asked for, and said to be one": {
			join.Pointer{
				Pool: "worker", Server: "https://api.example.com:22623", Version: join.DefaultPointerVersion,
				Gzip: true,
			},
			`{"ignition":{"version":"3.1.0","config":{"merge":[{"source":"https://api.example.com:22623/config/worker","compression":"gzip","httpHeaders":[{"name":"Accept-Encoding","value":"gzip"}]}]}}}`,
		},
		"the daemon of the server is merged before the pool's config, with the same token": {
			join.Pointer{
				Pool: "worker", Server: "https://boot.example.com/os", Token: someToken, Version: mcs.V3_1,
				Daemon: &join.Daemon{Arch: "arm64", Path: "/opt/bin/machine-config-daemon"},
			},
			`{"ignition":{"version":"3.1.0","config":{"merge":[` +
				`{"source":"https://boot.example.com/os/daemon/arm64/worker?path=%2Fopt%2Fbin%2Fmachine-config-daemon","httpHeaders":[{"name":"Authorization","value":"Bearer ` + someToken + `"}]},` +
				`{"source":"https://boot.example.com/os/config/worker","httpHeaders":[{"name":"Authorization","value":"Bearer ` + someToken + `"}]}]}}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want+"\n", ignition(t, c.pointer)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every CA of a bundle is one entry, and is what was given.
func TestTheCAArrives(t *testing.T) {
	one, two := authority(t, "one"), authority(t, "two")
	bundle := []byte("# from the vault\n" + string(one) + "\nSubject: two\n" + string(two) + string(one) + "\n")
	for _, v := range join.PointerVersions() {
		var got struct {
			Ignition struct {
				Security struct {
					TLS struct {
						CertificateAuthorities []struct{ Source string }
					}
				}
			}
		}
		if err := json.Unmarshal(
			[]byte(ignition(t, join.Pointer{
				Pool: "worker", Server: "https://api.example.com:22623", CA: bundle,
				Version: v,
			})), &got); err != nil {
			t.Fatal(err)
		}
		var found [][]byte
		for _, ca := range got.Ignition.Security.TLS.CertificateAuthorities {
			u, err := dataurl.DecodeString(ca.Source)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, u.Data)
		}
		if diff := cmp.Diff([][]byte{one, two}, found); diff != "" {
			t.Errorf("%s: %s", v, diff)
		}
	}
}

// Whom a server must be believed by is compared by what everybody can work out.
func TestAuthoritiesAreTheCertificatesOfABundle(t *testing.T) {
	one, two := authority(t, "one"), authority(t, "two")
	var want []string
	for _, text := range [][]byte{one, two} {
		block, _ := pem.Decode(text)
		want = append(want, fmt.Sprintf("%x", sha256.Sum256(block.Bytes)))
	}
	got, err := join.Fingerprints(slices.Concat(one, two, one))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, err := join.Fingerprints([]byte("hello")); err == nil {
		t.Errorf("what is no PEM has authorities: %v", got)
	}
}

// The server answers exactly the versions that a pointer may be written in, and the daemons of old images ask for.
func TestAPointerSpeaksWhatTheServerSpeaks(t *testing.T) {
	if diff := cmp.Diff(mcs.Versions(), join.PointerVersions()); diff != "" {
		t.Error(diff)
	}
}

// AWS takes 16 KiB of user data, and is the narrowest.
func TestAPointerIsSmall(t *testing.T) {
	for _, v := range join.PointerVersions() {
		p := whole(t, v)
		if out := ignition(t, p); len(out) > 4<<10 {
			t.Errorf("%s: %d bytes", v, len(out))
		}
		p.CA = authority(t, "bunsen machine-config-server CA")
		if out := ignition(t, p); len(out) > 2<<10 {
			t.Errorf("%s with one CA: %d bytes", v, len(out))
		}
	}
}

// Whoever keeps Butane documents gets the same machine.
func TestButaneTranspilesToTheIgnition(t *testing.T) {
	for _, v := range join.PointerVersions() {
		t.Run(string(v), func(t *testing.T) {
			p := whole(t, v)
			doc, err := p.Butane()
			if v == mcs.V2_2 {
				if err == nil || !strings.Contains(err.Error(), "no Butane for Ignition 2.2.0") {
					t.Errorf("%v\n%s", err, doc)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, report, err := butane.TranslateBytes(doc, common.TranslateBytesOptions{})
			if err != nil || len(report.Entries) > 0 {
				t.Fatalf("%v\n%s\n%s", err, report.String(), doc)
			}
			if diff := cmp.Diff(said(t, []byte(ignition(t, p))), said(t, out)); diff != "" {
				t.Errorf("%s\n%s", diff, doc)
			}
			for _, want := range []string{
				"# CA: \"CN=bunsen machine-config-server CA\" until 2106-02-07, sha256 ",
				"pool worker",
			} {
				if !strings.Contains(string(doc), want) {
					t.Errorf("it lacks %s:\n%s", want, doc)
				}
			}
		})
	}
}

// said is what a config says: without the fields that Butane writes though they are empty.
func said(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return withoutEmpty(v)
}

func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if v[key] = withoutEmpty(item); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}

// What the server serves is merged into the pointer: nothing of the pointer but its CA is left on the machine's config.
func TestTheServedConfigMergesIntoThePointer(t *testing.T) {
	for _, v := range join.PointerVersions()[1:] {
		parent, report, err := ign.ParseCompatibleVersion([]byte(ignition(t, whole(t, v))))
		if err != nil {
			t.Fatalf("%s: %v %s", v, err, report.String())
		}
		child, _, err := ign.Parse(
			[]byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,hi"}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		merged := ign.Merge(parent, child)
		if !reflect.DeepEqual(merged.Storage, child.Storage) ||
			len(merged.Ignition.Security.TLS.CertificateAuthorities) != 2 {
			t.Errorf("%s: %+v", v, merged)
		}
	}
}

func TestWhatIsNoPointer(t *testing.T) {
	good := join.Pointer{
		Pool: "worker", Server: "https://api.example.com:22623", Token: someToken,
		Version: join.DefaultPointerVersion,
	}
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	ca := authority(t, "one")
	for sentence, c := range map[string]struct {
		change func(*join.Pointer)
		want   []string
	}{
		"one to a server without a scheme":    {func(p *join.Pointer) { p.Server = "api.example.com:22623" }, []string{`--server "api.example.com:22623": want https://HOST:22623`}},
		"one to no server":                    {func(p *join.Pointer) { p.Server = "" }, []string{"want https://HOST:22623"}},
		"one in the clear":                    {func(p *join.Pointer) { p.Server = "http://api.example.com" }, []string{"want https, since a token"}},
		"one with a password of its own":      {func(p *join.Pointer) { p.Server = "https://me:hunter2@api.example.com" }, []string{"want no more than", "me:xxxxx@"}},
		"one with a query":                    {func(p *join.Pointer) { p.Server += "/?token=1" }, []string{"want no more than"}},
		"one with the pool in the URL":        {func(p *join.Pointer) { p.Server += "/config/worker" }, []string{`22623/config/worker": want https://HOST:22623, without /config/POOL`}},
		"one with half of that in the URL":    {func(p *join.Pointer) { p.Server += "/os/config/" }, []string{"without /config/POOL"}},
		"one for no pool":                     {func(p *join.Pointer) { p.Pool = "" }, []string{`--pool ""`}},
		"one for a pool that leads elsewhere": {func(p *join.Pointer) { p.Pool = ".." }, []string{`--pool ".."`}},
		"one for a pool of two lines":         {func(p *join.Pointer) { p.Pool = "a\nb" }, []string{`--pool "a\nb"`}},
		"one with half a token":               {func(p *join.Pointer) { p.Token = someToken[:30] }, []string{"--token: that is no provisioning token"}},
		"one of a version that nobody serves": {func(p *join.Pointer) { p.Version = "3.6.0" }, []string{`--version "3.6.0": want one of 2.2.0, 3.0.0, 3.1.0`}},
		"a compressed one without headers":    {func(p *join.Pointer) { p.Version, p.Gzip = mcs.V3_0, true }, []string{"--gzip needs headers"}},
		"one with a private key":              {func(p *join.Pointer) { p.CA = append(private, ca...) }, []string{"machines must never get a private key"}},
		"one with a CA that is none":          {func(p *join.Pointer) { p.CA = []byte("hello") }, []string{"it has no PEM certificate"}},
		"one with a CA that is cut off":       {func(p *join.Pointer) { p.CA = ca[:len(ca)-20] }, []string{"certificates are incomplete"}},
		"one with a CA that is broken":        {func(p *join.Pointer) { p.CA = append(bytes.Replace(ca, []byte("\n"), []byte("\n!"), 2), ca...) }, []string{"certificates are incomplete"}},
		"one with a certificate of rubbish": {func(p *join.Pointer) {
			p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		}, []string{"number 1: "}},
		"one with a daemon for another machine":   {func(p *join.Pointer) { p.Daemon = &join.Daemon{Arch: "x86_64"} }, []string{`--daemon-arch "x86_64": want one of amd64, arm64`}},
		"one with a daemon somewhere":             {func(p *join.Pointer) { p.Daemon = &join.Daemon{Arch: "amd64", Path: "/tmp/x"} }, []string{`--daemon-path: the daemon cannot be at this path: "/tmp/x": want one of /usr/local/bin/`}},
		"one with a daemon and without headers":   {func(p *join.Pointer) { p.Version, p.Daemon = mcs.V3_0, &join.Daemon{Arch: "amd64"} }, []string{"installing the daemon needs Ignition 3.1.0"}},
		"one with a download that nothing checks": {func(p *join.Pointer) { p.Daemon = &join.Daemon{URL: "ftp://x/y", SHA512: "00"} }, []string{"--daemon-url: want https://", "--daemon-sha512: want the SHA-512"}},
		"everything at once":                      {func(p *join.Pointer) { *p = join.Pointer{CA: []byte("x"), Token: "x"} }, []string{"--version", "--server", "--pool", "--token", "the CA"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := good
			c.change(&p)
			for form, write := range map[string]func() ([]byte, error){"Ignition": p.Ignition, "Butane": p.Butane} {
				out, err := write()
				if err == nil || out != nil {
					t.Fatalf("%s is written:\n%s", form, out)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %s", form, err, want)
					}
				}
				if strings.Contains(err.Error(), someToken) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error has a secret: %v", err)
				}
			}
		})
	}
}

func TestATokenInAURLIsSaid(t *testing.T) {
	for _, v := range join.PointerVersions() {
		p := join.Pointer{Pool: "worker", Server: "https://api.example.com:22623", Token: someToken, Version: v}
		secret := strings.SplitN(someToken, ".", 3)[2]
		if in := strings.Contains(ignition(t, p), secret+"@"); in != p.TokenInURL() {
			t.Errorf("%s: in the URL %v, said %v", v, in, p.TokenInURL())
		}
		if p.Token = ""; p.TokenInURL() {
			t.Errorf("%s: a token in the URL without a token", v)
		}
	}
}

// Whatever the pool and the server are called, the server's answer is asked for by exactly one URL, and the token reads
// back.
func FuzzPointer(f *testing.F) {
	f.Add("worker", "https://api.example.com:22623", uint8(2))
	f.Add("a%2fb", "https://u:p@h/x?y#z", uint8(0))
	f.Add("..", "https://[::1]", uint8(1))
	versions := join.PointerVersions()
	tok, err := join.ParseToken(someToken)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pool, server string, v uint8) {
		p := join.Pointer{Pool: pool, Server: server, Token: someToken, Version: versions[int(v)%len(versions)]}
		out, err := p.Ignition()
		if err != nil {
			if strings.Contains(err.Error(), tok.Secret) {
				t.Errorf("the error has the secret: %v", err)
			}
			return
		}
		if !bytes.Contains(out, []byte("/config/"+pool+`"`)) || bytes.Count(out, []byte(tok.Secret)) != 1 {
			t.Errorf("pool %q, server %q: %s", pool, server, out)
		}
	})
}

// TestADownloadedDaemonIsCheckedAndRuns: Ignition accepts only the binary with the hash, and the pool's config
// overrides the pointer's units and file.
func TestADownloadedDaemonIsCheckedAndRuns(t *testing.T) {
	sum := strings.Repeat("0a", 64)
	for _, v := range join.PointerVersions()[2:] {
		p := whole(t, v)
		p.Daemon = &join.Daemon{
			URL:    "http://mirror.example.com/machine-config-daemon.gz",
			SHA512: strings.ToUpper(sum),
		}
		raw := []byte(ignition(t, p))
		parent, report, err := ign.ParseCompatibleVersion(raw)
		if err != nil {
			t.Fatalf("%s: %v %s", v, err, report.String())
		}
		f := parent.Storage.Files[0]
		if f.Path != "/usr/local/bin/machine-config-daemon" || *f.Mode != 0o755 ||
			*f.Contents.Verification.Hash != "sha512-"+sum || *f.Contents.Compression != "gzip" ||
			len(parent.Systemd.Units) != 3 {
			t.Errorf("%s: %s", v, raw)
		}
		if len(raw) > 8<<10 {
			t.Errorf("%s: %d bytes", v, len(raw))
		}
		child, _, err := ign.Parse(
			[]byte(`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"machine-config-daemon.service","enabled":true,"contents":"[Service]\nExecStart=/bin/own\n"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range ign.Merge(parent, child).Systemd.Units {
			if u.Name == "machine-config-daemon.service" && !strings.Contains(*u.Contents, "/bin/own") {
				t.Errorf("%s: the pool's unit is overridden: %s", v, *u.Contents)
			}
		}
		doc, err := p.Butane()
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := butane.TranslateBytes(doc, common.TranslateBytesOptions{})
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if diff := cmp.Diff(said(t, raw), said(t, out)); diff != "" {
			t.Errorf("%s\n%s", diff, doc)
		}
	}
}
