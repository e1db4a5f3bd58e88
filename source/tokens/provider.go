package tokens

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

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
