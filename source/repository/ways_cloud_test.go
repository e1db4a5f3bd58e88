package repository_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// cloudWays has the identities of cloud providers, with servers that answer as the providers document it. A proxy leads
// the names of the providers to these servers.
func cloudWays(t *testing.T, root string) chapter {
	own := issue(t, soon(), "dev.azure.com", "login.microsoftonline.com", "europe-docker.pkg.dev")
	var tunnels atomic.Int64
	entra := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := map[string]string{
			"grant_type": "client_credentials", "client_id": "client",
			"scope":                 "499b84ac-1321-427f-aa17-267ca6975798/.default",
			"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
			"client_assertion":      "S3CR3T.projected",
		}
		for key, value := range want {
			if r.PostFormValue(key) != value {
				http.Error(w, `{"error":"invalid_client","error_description":"`+r.PostFormValue(key)+marker+`"}`,
					http.StatusUnauthorized)
				return
			}
		}
		switch r.URL.Path {
		case "/tenant/oauth2/v2.0/token":
			fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":3599,"access_token":%q}`, token)
		case "/other/oauth2/v2.0/token":
			fmt.Fprint(w, `{"token_type":"Bearer","expires_in":3599,"access_token":"S3CR3T-other"}`)
		case "/busy/oauth2/v2.0/token":
			http.Error(w, marker, http.StatusServiceUnavailable)
		case "/page/oauth2/v2.0/token":
			fmt.Fprint(w, "<html>"+marker)
		default:
			http.Redirect(w, r, "https://evil.example/?"+marker, http.StatusTemporaryRedirect)
		}
	}), own, "")
	devops := serveTLS(t, guarded(backend(t, root)), own, "")
	artifacts := artifactRegistry(t)
	packages := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != "oauth2accesstoken" || p != token {
			w.Header().Set("WWW-Authenticate", `Basic realm="packages"`)
			http.Error(w, marker, http.StatusUnauthorized)
			return
		}
		artifacts.ServeHTTP(w, r)
	}), own, "")
	proxy := connectProxy(t, routes{
		"dev.azure.com:443": devops, "login.microsoftonline.com:443": entra,
		"europe-docker.pkg.dev:443": packages,
	}, nil, &tunnels)
	metadata := func(code int) string {
		return strings.TrimPrefix(serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Metadata-Flavor") != "Google" ||
				r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" || code != http.StatusOK {
				http.Error(w, marker, max(code, http.StatusForbidden))
				return
			}
			fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, token)
		})), "http://")
	}
	good, none := metadata(http.StatusOK), metadata(http.StatusNotFound)
	through := data{"address": proxy, "username": userName, "password": password}
	file := writeFile(t, filepath.Join(t.TempDir(), "token"), "S3CR3T.projected\n")
	wrong := writeFile(t, filepath.Join(t.TempDir(), "token"), "S3CR3T.wrong\n")
	env := chapterSecret{
		"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": file,
		"GCE_METADATA_HOST": good,
	}
	ca := data{"ca.crt": own.certificate}
	url, image, tag := "https://dev.azure.com/cfg", "oci://europe-docker.pkg.dev/team/cfg",
		v1alpha1.GitRef{Tag: "1.0.0"}
	azure := func(name string, changes ...string) way {
		return way{
			name: "azure: " + name, url: url, secret: ca, proxy: through, provider: v1alpha1.ProviderAzure,
			env: env.with(changes...), authorities: own.certificate,
		}
	}
	azureAt := func(name, url string, secret data) way {
		return way{
			name: "azure: " + name, url: url, secret: secret, proxy: through, provider: v1alpha1.ProviderAzure,
			env: env.with(),
		}
	}
	gcp := func(name, url string, changes ...string) way {
		return way{
			name: "gcp: " + name, url: url, secret: ca, proxy: through, provider: v1alpha1.ProviderGCP,
			env: env.with(changes...), ref: tag,
		}
	}
	return chapter{"Identities of cloud providers (provider)", data{
		good: "METADATA", none: "METADATA",
		filepath.Dir(file): "/var/run/secrets",
	}, []way{
		azure("a repository of Azure DevOps"),
		azure("the authority that the webhook of Azure sets", "AZURE_AUTHORITY_HOST",
			"https://login.microsoftonline.com/"),
		azure("no identity in the pod", "AZURE_CLIENT_ID", ""),
		azure("no file with the projected token", "AZURE_FEDERATED_TOKEN_FILE", filepath.Join(filepath.Dir(file),
			"nope")),
		azure("a token that Azure refuses", "AZURE_FEDERATED_TOKEN_FILE", wrong),
		azure("an identity that may not read the repository", "AZURE_TENANT_ID", "other"),
		azure("a service that is busy", "AZURE_TENANT_ID", "busy"),
		azure("a page in place of an answer", "AZURE_TENANT_ID", "page"),
		azure("a redirect", "AZURE_TENANT_ID", "redirect"),
		azure("another authority", "AZURE_AUTHORITY_HOST", "https://evil.example"),
		azure("a tenant that is a path", "AZURE_TENANT_ID", "../evil"),
		azureAt("another host", "https://dev.azure.com.evil.example/cfg", ca),
		azureAt("another port", "https://dev.azure.com:8443/cfg", ca),
		azureAt("no TLS", "http://dev.azure.com/cfg", ca),
		azureAt("ssh", "git@ssh.dev.azure.com:v3/cfg", ca),
		azureAt("a user in the URL", "https://me@dev.azure.com/cfg", ca),
		azureAt("a password in the Secret", url, data{
			"ca.crt": own.certificate, "username": userName,
			"password": password,
		}),
		{name: "azure: a Secret whose author pretends to be Azure", url: url, secret: ca, proxy: through, provider: v1alpha1.ProviderAzure, env: env.with()},
		azureAt("a tunnel of a customer", "https://mine-443.app.online.visualstudio.com/cfg", ca),
		azureAt("a name that ends in a dot", "https://dev.azure.com./cfg", ca),
		gcp("an artifact of Artifact Registry", image),
		gcp("no account", image, "GCE_METADATA_HOST", none),
		gcp("another registry", "oci://pkg.dev.evil.example/team/cfg"),
		gcp("a registry whose name only looks the same", "oci://europe-docKer.pKg.dev/team/cfg"),
		gcp("a git repository", "https://europe-docker.pkg.dev/cfg"),
		{name: "aws: not supported", url: url, provider: "aws", env: env.with()},
	}, func(t *testing.T) {
		if tunnels.Load() == 0 {
			t.Error("no connection went to the servers of this test")
		}
	}}
}
