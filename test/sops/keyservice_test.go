package sops

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsops/sops/v3/keyservice"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// recorder is a key service that records what it is asked, and answers with a data key.
type recorder struct {
	keyservice.UnimplementedKeyServiceServer
	asked *keyservice.DecryptRequest
}

const dataKey = "0123456789abcdef0123456789abcdef"

func (r *recorder) Decrypt(_ context.Context, in *keyservice.DecryptRequest) (*keyservice.DecryptResponse, error) {
	r.asked = in
	if string(in.Ciphertext) == "refused" {
		return nil, status.Error(codes.Unknown, "no\nüsable key")
	}
	return &keyservice.DecryptResponse{Plaintext: []byte(dataKey)}, nil
}

// TestTheKeyServiceReadsEachKindOfKey has each kind as the metadata of a file has it, and what the server of SOPS
// reads.
func TestTheKeyServiceReadsEachKindOfKey(t *testing.T) {
	var service recorder
	server := grpc.NewServer()
	keyservice.RegisterKeyServiceServer(server, &service)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	c, err := sops.NewKeyService("unix://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*keyservice.Key{
		"pgp:\n  - fp: 85D7": {KeyType: &keyservice.Key_PgpKey{PgpKey: &keyservice.PgpKey{Fingerprint: "85D7"}}},
		"kms:\n  - arn: arn:aws:kms:eu:1:key/a\n    role: arn:aws:iam::1:role/b\n    aws_profile: p\n    context:\n" +
			"      for: an app & more\n      b: c\n": {KeyType: &keyservice.Key_KmsKey{KmsKey: &keyservice.KmsKey{
			Arn: "arn:aws:kms:eu:1:key/a", Role: "arn:aws:iam::1:role/b", AwsProfile: "p",
			Context: map[string]string{"for": "an app & more", "b": "c"},
		}}},
		"kms:\n  - arn: arn:aws:kms:eu:1:key/a": {KeyType: &keyservice.Key_KmsKey{KmsKey: &keyservice.KmsKey{
			Arn: "arn:aws:kms:eu:1:key/a",
		}}},
		"gcp_kms:\n  - resource_id: projects/p/locations/global/keyRings/r/cryptoKeys/k": {
			KeyType: &keyservice.Key_GcpKmsKey{GcpKmsKey: &keyservice.GcpKmsKey{
				ResourceId: "projects/p/locations/global/keyRings/r/cryptoKeys/k",
			}},
		},
		"azure_kv:\n  - vault_url: https://v.example\n    name: n\n    version: w": {
			KeyType: &keyservice.Key_AzureKeyvaultKey{AzureKeyvaultKey: &keyservice.AzureKeyVaultKey{
				VaultUrl: "https://v.example", Name: "n", Version: "w",
			}},
		},
		"azure_kv:\n  - vault_url: https://v.example\n    name: n\n    version: \"\"": {
			KeyType: &keyservice.Key_AzureKeyvaultKey{AzureKeyvaultKey: &keyservice.AzureKeyVaultKey{
				VaultUrl: "https://v.example", Name: "n",
			}},
		},
		"hc_vault:\n  - vault_address: https://v.example\n    engine_path: a/transit\n    key_name: k": {
			KeyType: &keyservice.Key_VaultKey{VaultKey: &keyservice.VaultKey{
				VaultAddress: "https://v.example", EnginePath: "a/transit", KeyName: "k",
			}},
		},
		"age:\n  - recipient: ssh-ed25519 AAAA me": {
			KeyType: &keyservice.Key_AgeKey{AgeKey: &keyservice.AgeKey{Recipient: "ssh-ed25519 AAAA me"}},
		},
		"hckms:\n  - key_id: tr-west-1:abc": {KeyType: &keyservice.Key_HckmsKey{HckmsKey: &keyservice.HckmsKey{
			KeyId: "tr-west-1:abc",
		}}},
	} {
		file := "a: ENC[AES256_GCM,data:x]\nsops:\n  lastmodified: \"2026-01-02T03:04:05Z\"\n  mac: x\n  " +
			strings.ReplaceAll(strings.TrimSpace(name), "\n", "\n  ") + "\n      enc: enc\n"
		d, err := document.Parse(document.YAML, []byte(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		key, err := c.Round(t.Context())(d.Metadata.Groups[0][0])
		if err != nil || string(key) != dataKey {
			t.Errorf("%s: %q, %v", name, key, err)
			continue
		}
		if !proto.Equal(service.asked.Key, want) || string(service.asked.Ciphertext) != "enc" {
			t.Errorf("%s: the service reads %v, want %v", name, service.asked, want)
		}
	}
	_, err = c.Round(t.Context())(document.Recipient{Kind: "pgp", Name: "x", Encrypted: "refused"})
	if err == nil || err.Error() != "it says: no üsable key" {
		t.Errorf("an error of the service: %v", err)
	}
}

// TestTheProgramDecryptsForAPGPKey: gpg makes a key, sops encrypts a file for it, and our client asks sops keyservice
// for its data key. The service goes away and comes back.
func TestTheProgramDecryptsForAPGPKey(t *testing.T) {
	built, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "sops").Output()
	if err != nil {
		t.Fatalf("building sops: %v", err)
	}
	program := strings.TrimSpace(string(built))
	home, err := os.MkdirTemp("", "gpg") // a socket of gpg-agent needs a short path
	if err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(), "GNUPGHOME="+home, "HOME="+home)
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.Background(), name, args...)
		cmd.Env, cmd.Dir = environment, home
		out, err := cmd.Output()
		if err != nil {
			exit, _ := err.(*exec.ExitError)
			t.Fatalf("%s %v: %v\n%s", name, args, err, exit.Stderr)
		}
		return string(out)
	}
	t.Cleanup(func() {
		run("gpgconf", "--kill", "all")
		_ = os.RemoveAll(home)
	})
	run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "bunsen", "default", "default", "never")
	_, rest, _ := strings.Cut(run("gpg", "--list-keys", "--with-colons"), "\nfpr:")
	fingerprint := strings.Trim(strings.SplitN(rest, "\n", 2)[0], ":")
	const plain = "user: app\npassword: hunter2\n"
	file := filepath.Join(home, "app.sops.yaml")
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	run(program, "--config", "/dev/null", "encrypt", "-i", "--pgp", fingerprint, file)
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(home, "keys.sock")
	start := func() (stop func()) {
		cmd := exec.CommandContext(context.Background(), program, "keyservice", "--verbose", "--network", "unix",
			"--address", socket)
		cmd.Env = environment
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stderr)
		for lines.Scan() && !strings.Contains(lines.Text(), "Listening") {
			t.Log(lines.Text())
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = os.Remove(socket)
		}
	}
	c, err := sops.NewKeyService("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	decrypt := func(body []byte, allowed ...string) (string, error) {
		out, err := sops.Keys{Service: &sops.Service{
			Ask: c.Round(t.Context()), Allowed: allowed, AllowedIn: "the list",
		}}.Decrypt("yaml", body)
		return string(out), err
	}
	fails := func(because, want string, body []byte, allowed ...string) {
		t.Helper()
		if out, err := decrypt(body, allowed...); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", because, out, err)
		}
	}
	key := "pgp " + fingerprint
	fails("without a service", "it does not answer", body, key)
	stop := start()
	fails("a key that is not listed", "add that text to the list", body, "pgp OTHER")
	damaged := []byte(strings.ReplaceAll(string(body), "PGP MESSAGE", "PGP MESSAGX"))
	fails("a damaged data key", "it says: ", damaged, key)
	if out, err := decrypt(body, key); err != nil || out != plain {
		t.Errorf("with the service: %q, %v", out, err)
	}
	stop()
	if out, err := decrypt(body, key); err != nil || out != plain {
		t.Errorf("a known data key without the service: %q, %v", out, err)
	}
	if c, err = sops.NewKeyService("unix://" + socket); err != nil {
		t.Fatal(err)
	}
	fails("another server without the service", "it does not answer", body, key)
	defer start()()
	if out, err := decrypt(body, key); err != nil || out != plain {
		t.Errorf("after a restart: %q, %v", out, err)
	}
}
