package tokens

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

const (
	maxAnswer = 64 << 10
	maxToken  = 16 << 10
)

// CloudTokens requests tokens of the identity of this process. All sources of a provider with the same proxy share one
// token, and the last failure. It is safe for concurrent use.
type CloudTokens struct {
	// Getenv returns a variable of the process's environment.
	Getenv func(string) string
	// Authorities are certificate authorities, in PEM, that CloudTokens accepts for a token service besides those of
	// the system; nil: none. The addresses of these authorities must not come from the Secret of a source: an attacker
	// who can pretend to be the token service gets the identity of the process.
	Authorities []byte

	cache cache[CloudAccess]
}

// CloudAccess is what a token depends on.
type CloudAccess struct {
	// Provider is the cloud provider that issues the token.
	Provider v1alpha1.SourceProvider
	// Proxy identifies the proxy to the token service; empty: none.
	Proxy string
}

// Credentials returns the keys of a Secret that read repositories of a provider. The client must not follow redirects,
// and is not used for requests to the metadata server of a machine. Errors are faults: AuthenticationFailed if the
// provider refuses the identity, RepositoryUnreachable if the provider does not answer.
func (t *CloudTokens) Credentials(ctx context.Context, access CloudAccess, client *http.Client,
	now time.Time,
) (map[string][]byte, error) {
	isGCP := access.Provider == v1alpha1.ProviderGCP
	token, err := t.cache.token(ctx, access.key(), fmt.Sprintf("a token of %s", access.Provider), now,
		func(ctx context.Context) (string, time.Duration, error) {
			if isGCP {
				return t.requestGCP(ctx)
			}
			return t.requestAzure(ctx, client)
		})
	switch {
	case err != nil:
		return nil, err
	case isGCP:
		return map[string][]byte{"username": []byte("oauth2accesstoken"), "password": []byte(token)}, nil
	}
	return map[string][]byte{"bearerToken": []byte(token)}, nil
}

// Forget drops credentials that the host refused, so that the next call of Credentials requests new credentials.
func (t *CloudTokens) Forget(access CloudAccess, refused map[string][]byte) {
	t.cache.forget(access.key(), string(refused["bearerToken"]), string(refused["password"]))
}

// key returns what a token depends on: only for Azure, the proxy is a part of it.
func (a CloudAccess) key() CloudAccess {
	if a.Provider == v1alpha1.ProviderGCP {
		a.Proxy = ""
	}
	return a
}

// requestAzure exchanges the pod's projected token at Microsoft Entra ID.
func (t *CloudTokens) requestAzure(ctx context.Context, client *http.Client) (string, time.Duration, error) {
	endpoint, id, err := azureEndpoint(t.Getenv)
	if err != nil {
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication, err)
	}
	doing := "requesting a token of Azure from " + endpoint
	assertion, err := os.ReadFile(t.Getenv(azureTokenFile))
	if err != nil {
		return "", 0, fault.NewRetry(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: reading the projected token: %w",
			doing, err))
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {devOpsScope},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {strings.TrimSpace(string(assertion))},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", doing, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(client, r, doing, "Azure refuses the identity: check the client's ID, and the issuer, subject and "+
		"audience of its federated credential")
}

// azureEndpoint returns the address that issues tokens, and the client's ID.
func azureEndpoint(getenv func(string) string) (endpoint, client string, err error) {
	authority := strings.TrimRight(getenv(azureAuthority), "/")
	if authority == "" {
		authority = authorities[0]
	}
	tenant, client := getenv(azureTenant), getenv(azureClient)
	for _, variable := range []string{azureTenant, azureClient, azureTokenFile} {
		if getenv(variable) == "" {
			return "", "", fmt.Errorf("the controller's pod has no identity of Azure, because %s is not set: bind "+
				"one to its ServiceAccount", variable)
		}
	}
	known := false
	for _, a := range authorities {
		known = known || a == authority
	}
	if !known {
		return "", "", fmt.Errorf("%s of the controller's pod is not an address of Microsoft Entra ID: write %s",
			azureAuthority, authorities[0])
	}
	if !id.MatchString(tenant) || !id.MatchString(client) {
		return "", "", fmt.Errorf("%s or %s of the controller's pod is not an ID: correct it", azureTenant, azureClient)
	}
	return authority + "/" + tenant + "/oauth2/v2.0/token", client, nil
}

// requestGCP asks the metadata server of the pod or the machine. The request uses no proxy and no credentials.
func (t *CloudTokens) requestGCP(ctx context.Context) (string, time.Duration, error) {
	host := t.Getenv(gcpMetadata)
	if host == "" {
		host = "metadata.google.internal"
	}
	endpoint := (&url.URL{
		Scheme: "http", Host: host,
		Path: "/computeMetadata/v1/instance/service-accounts/default/token",
	}).String()
	doing := "requesting a token of Google Cloud from " + endpoint
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication,
			fmt.Errorf("reading %s of the controller's pod: it is not a host", gcpMetadata))
	}
	r.Header.Set("Metadata-Flavor", "Google")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
	return send(client, r, doing, "the metadata server has no account for the controller: bind one to its "+
		"ServiceAccount")
}

// wellFormed matches tokens that can be the value of an HTTP header.
var wellFormed = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// send sends a request for a token, and returns the token with its lifetime. The parameter refused is the advice in the
// error if the service refuses the identity.
func send(client *http.Client, r *http.Request, doing, refused string) (string, time.Duration, error) {
	res, err := client.Do(r)
	if err != nil {
		var request *url.Error
		if errors.As(err, &request) {
			err = request.Err
		}
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			err = fmt.Errorf("let the controller's system trust the server's certificate, because ca.crt of a Secret "+
				"does not count here (%w)", err)
		}
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, err))
	}
	defer res.Body.Close()
	status := fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
	switch code := res.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusTooManyRequests || code >= 500:
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the server does not serve requests now; the controller tries again (%s)", doing, status))
	default:
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s (%s)", doing, refused, status))
	}
	var answer struct {
		Token   string      `json:"access_token"`
		Expires json.Number `json:"expires_in"` // Expires is a number of seconds, possibly as a string.
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer)
	life, errLife := answer.Expires.Int64()
	if err = errors.Join(err, errLife); err != nil || !wellFormed.MatchString(answer.Token) ||
		len(answer.Token) > maxToken || life <= 0 {
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the answer has no token", doing))
	}
	return answer.Token, time.Duration(min(life, 86400)) * time.Second, nil
}

// organization matches the host of an organization of Azure DevOps. Hosts below other names of visualstudio.com may
// belong to customers of Azure, for example through tunnels.
var organization = regexp.MustCompile(`^[a-z0-9-]+\.visualstudio\.com$`)

// registry matches the hosts of Artifact Registry.
var registry = regexp.MustCompile(`^([a-z0-9-]+\.)*(pkg\.dev|gcr\.io)$`)

// CheckCloudHost returns an error if the credentials of a provider are not for the repository at an address: the author
// of the URL must not choose who gets the credentials.
func CheckCloudHost(provider v1alpha1.SourceProvider, at source.Address) error {
	host, standardPort := strings.ToLower(at.Host), at.Port == "" || at.Port == "443"
	if strings.ContainsFunc(at.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		host = "" // ToLower turns some other letters into ASCII letters.
	}
	switch provider {
	case v1alpha1.ProviderAzure:
		if at.Scheme == "https" && standardPort && at.User == "" && at.Password == "" &&
			(host == "dev.azure.com" || organization.MatchString(host)) {
			return nil
		}
		return errors.New("spec.provider azure is for git repositories of Azure DevOps: write " +
			"https://dev.azure.com/... without a user into spec.url, or remove spec.provider")
	case v1alpha1.ProviderGCP:
		if at.Scheme == "oci" && standardPort && registry.MatchString(host) {
			return nil
		}
		return errors.New("spec.provider gcp is for OCI repositories of Artifact Registry: write " +
			"oci://LOCATION-docker.pkg.dev/... into spec.url, or remove spec.provider")
	}
	return fmt.Errorf("spec.provider %q is not supported: write generic, azure or gcp", provider)
}

// The environment variables that Azure's webhook for workload identity sets in a pod, and the variable that Google's
// libraries read.
const (
	azureTenant    = "AZURE_TENANT_ID"
	azureClient    = "AZURE_CLIENT_ID"
	azureTokenFile = "AZURE_FEDERATED_TOKEN_FILE"
	azureAuthority = "AZURE_AUTHORITY_HOST"
	gcpMetadata    = "GCE_METADATA_HOST"
)

// devOpsScope is the scope of a token for Azure DevOps: the token allows all that the identity may do there.
const devOpsScope = "499b84ac-1321-427f-aa17-267ca6975798/.default"

// authorities are the hosts of Microsoft Entra ID.
var authorities = []string{
	"https://login.microsoftonline.com", "https://login.microsoftonline.us",
	"https://login.partner.microsoftonline.cn",
}

// id matches the IDs and names of tenants and clients. The ids become a part of an address.
var id = regexp.MustCompile(`^[A-Za-z0-9.-]{1,128}$`)
