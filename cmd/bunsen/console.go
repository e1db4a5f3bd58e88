package main

import (
	"cmp"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console"
)

func consoleCommand() *cobra.Command {
	var target kube.Target
	var s console.Sharing
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the console to several users, each with the user's own rights",
		GroupID: "install",
		Long: `Serve the pages of bunsen ui to several users, over https. The component config/components/console runs bunsen console on the
cluster.

Each user signs in with a token of the Kubernetes API. The console reads and changes the cluster with the user's token only: the
console has no rights of its own, and uses no credentials of the kubeconfig. Its pages have the actions that the user's rights
allow; with --read-only, they have none. The console stores tokens in memory. A session ends with its
token, and after eight hours. If the API server no longer accepts the user's token, the session also ends.

If the API server accepts the ID tokens of an OpenID provider, users can also sign in at the provider (--oidc-issuer). Register
the redirect URL https://HOST/oidc/callback at the provider, for a client whose ID tokens the API server accepts. A session of
the provider ends with its ID token.

The console answers only requests for the hosts of --host. The certificate of --tls-cert may change while the console runs. Without
one, the console signs a certificate itself and prints its fingerprint.`,
		Example: `  bunsen console --host console.example.org --tls-cert tls.crt --tls-key tls.key
  bunsen console --host localhost:8443 --listen 127.0.0.1:8443
  bunsen console --host console.example.org --tls-cert tls.crt --tls-key tls.key \
    --oidc-issuer https://id.example.org --oidc-client-id kubernetes --oidc-client-secret-file secret`,
		Args: cobra.NoArgs,
	}
	target.AddFlags(cmd)
	cmd.Flags().StringVar(&s.Address, "listen", ":8443", "address to listen on")
	cmd.Flags().StringSliceVar(&s.Hosts, "host", nil, "host that browsers open, with the port unless it is 443; "+
		"repeat the flag for several hosts")
	cmd.Flags().StringVar(&s.CertFile, "tls-cert", "", "file with the certificate (PEM); empty: a new certificate, "+
		"which the console signs itself")
	cmd.Flags().StringVar(&s.KeyFile, "tls-key", "", "file with the key of the certificate (PEM)")
	cmd.Flags().StringVar(&s.Name, "cluster-name", "", "name of the cluster on the pages; empty: the cluster's name "+
		"in the kubeconfig")
	cmd.Flags().StringVar(&s.OIDC.Issuer, "oidc-issuer", "", "URL of an OpenID provider whose ID tokens the API "+
		"server accepts")
	cmd.Flags().StringVar(&s.OIDC.ClientID, "oidc-client-id", "", "the console's client at the provider")
	cmd.Flags().StringVar(&s.OIDC.SecretFile, "oidc-client-secret-file", "", "file with the secret of the OpenID "+
		"client; empty for a public client")
	cmd.Flags().StringVar(&s.OIDC.CAFile, "oidc-ca", "", "file with the CA of the OpenID provider (PEM); empty: the "+
		"CAs of the system")
	cmd.Flags().StringSliceVar(&s.OIDC.Scopes, "oidc-scope", []string{"email", "profile"}, "scopes besides openid")
	cmd.Flags().BoolVar(&s.ReadOnly, "read-only", false, "pages without actions, for a console that changes nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if s.API, err = anonymous(cmd, &target); err != nil {
			return err
		}
		s.Name = cmp.Or(s.Name, target.Name())
		shared, err := console.Share(cmd.Context(), s)
		if err != nil {
			return cli.Invalid(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "The console is at https://%s\n", safetext.Line(s.Hosts[0]))
		if shared.Fingerprint != "" {
			fmt.Fprintln(cmd.OutOrStdout(), "SHA-256 of the console's certificate:", shared.Fingerprint)
		}
		return shared.Serve(cmd.Context())
	}
	return cmd
}

// podCA is the file with the CA of the API server in a pod.
const podCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// anonymous returns the connection to the API server without credentials. In a pod, it needs no token.
func anonymous(cmd *cobra.Command, target *kube.Target) (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" || cmd.Flag("kubeconfig").Changed || os.Getenv("KUBECONFIG") != "" {
		rc, err := target.Config()
		if err != nil {
			return nil, err
		}
		return rest.AnonymousClientConfig(rc), nil
	}
	if _, err := os.Stat(podCA); err != nil {
		return nil, cli.Invalid(fmt.Errorf("reading the CA of the API server: %w", err))
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: podCA},
	}, nil
}
