package kinds

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PolicyOf reports whether a file is a signature policy, and returns its namespace; "" for the policy of the whole
// node.
func PolicyOf(path string) (namespace string, ok bool) {
	name, ok := strings.CutPrefix(path, namespaceDir)
	if !ok {
		return "", path == policyPath
	}
	return strings.CutSuffix(name, ".json")
}

// Weaker returns the scopes, in lexical order, for which a policy lacks a requirement that another one has. Weaker
// returns nil if one of the texts is no policy, because no runtime would use it.
func Weaker(policy, than []byte) []string {
	has, ok := requirements(policy)
	wants, valid := requirements(than)
	if !ok || !valid {
		return nil
	}
	lost := map[string]bool{}
	for key, list := range wants {
		for _, r := range list {
			if !slices.Contains(has[key], r) {
				lost[key.scope] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(lost))
}

// policyKey is one scope of one transport.
type policyKey struct{ transport, scope string }

// requirements returns the requirements of each scope of a policy as canonical JSON, without those that accept
// anything.
func requirements(text []byte) (map[policyKey][]string, bool) {
	var policy struct {
		Default    []any
		Transports map[string]map[string][]any
	}
	if json.Unmarshal(text, &policy) != nil {
		return nil, false
	}
	out := map[policyKey][]string{}
	add := func(key policyKey, list []any) {
		for _, r := range list {
			if m, ok := r.(map[string]any); ok && m["type"] == "insecureAcceptAnything" {
				continue
			}
			canonical, err := json.Marshal(r)
			if err != nil {
				continue // unreachable: the value comes from JSON
			}
			out[key] = append(out[key], string(canonical))
		}
	}
	add(policyKey{scope: "all other images"}, policy.Default)
	for transport, scopes := range policy.Transports {
		for scope, list := range scopes {
			if scope == "" {
				scope = "all images of " + transport
			}
			add(policyKey{transport, scope}, list)
		}
	}
	return out, true
}

// Files of signature policies.
const (
	policyPath = "/etc/containers/policy.json"
	// namespaceDir has a policy for each namespace of Kubernetes. CRI-O uses it in place of policyPath.
	namespaceDir = "/etc/crio/policies/"
	sigstorePath = "/etc/containers/registries.d/sigstore-registries.yaml"
)

// signaturePolicy is what one document requires of images. Its namespace is "" for the whole cluster.
type signaturePolicy struct {
	namespace   string
	at          origin.Pos
	scopes      []policyScope
	requirement requirement
}

type policyScope struct {
	name string
	at   origin.Pos
}

// requirement is one entry of containers-policy.json(5).
type requirement struct {
	Type           string    `json:"type"`
	KeyData        []byte    `json:"keyData,omitempty"`
	Fulcio         *fulcio   `json:"fulcio,omitempty"`
	RekorKeyData   []byte    `json:"rekorPublicKeyData,omitempty"`
	PKI            *pki      `json:"pki,omitempty"`
	SignedIdentity *identity `json:"signedIdentity,omitempty"`
}

type fulcio struct {
	CAData []byte `json:"caData"`
	Issuer string `json:"oidcIssuer"`
	Email  string `json:"subjectEmail"`
}

type pki struct {
	Roots         []byte `json:"caRootsData"`
	Intermediates []byte `json:"caIntermediatesData,omitempty"`
	Email         string `json:"subjectEmail,omitempty"`
	Hostname      string `json:"subjectHostname,omitempty"`
}

type identity struct {
	Type         string `json:"type"`
	Repository   string `json:"dockerRepository,omitempty"`
	Prefix       string `json:"prefix,omitempty"`
	SignedPrefix string `json:"signedPrefix,omitempty"`
}

// readPolicy reads a ClusterImagePolicy or an ImagePolicy.
func (p *pool) readPolicy(d RegistriesDocument, t *ObjectTranslation) {
	var doc configv1.ImagePolicy // the spec of a ClusterImagePolicy has the same fields
	if ok := t.Decode(d.Kind, &doc); !ok {
		p.findings = append(p.findings, t.Findings...)
		return
	}
	runtimes := p.runtimes(d, doc.Annotations)
	if runtimes.Containerd && !runtimes.CRIO {
		p.errorf(at(d, "$.kind"), ruleRuntime,
			"containerd checks no signatures, so the document has no effect on "+
				"nodes with it: refuse unsigned images with an admission policy of the cluster. If Podman or "+
				"rpm-ostree "+
				"of these nodes must check them, write crio,containerd")
	} else if runtimes.Containerd {
		p.warnf(at(d, "$.kind"), ruleRuntime,
			"containerd checks no signatures: on nodes with it, the document "+
				"affects only Podman and other programs that read %s", policyPath)
	}
	r := policyReader{doc: d}
	out := signaturePolicy{at: at(d, "$.spec"), requirement: r.requirement(doc.Spec.Policy)}
	p.findings = append(p.findings, r.findings...)
	switch {
	case d.Kind == ClusterPolicy && doc.Namespace != "":
		p.errorf(at(d, "$.metadata.namespace"), ruleField, "a %s is for all namespaces: remove metadata.namespace, "+
			"or write an %s", ClusterPolicy, NamespacePolicy)
	case d.Kind == NamespacePolicy && len(validation.IsDNS1123Label(doc.Namespace)) > 0:
		p.errorf(at(d, "$.metadata.namespace"), ruleField, "an %s is for one namespace: write its name in "+
			"metadata.namespace, with lower-case letters, digits and -", NamespacePolicy)
	default:
		out.namespace = doc.Namespace
	}
	if len(doc.Spec.Scopes) == 0 {
		p.errorf(at(d, "$.spec"), ruleField, "the %s has no scopes: name the registries or repositories whose images "+
			"must be signed", d.Kind)
	}
	for i, s := range doc.Spec.Scopes {
		pos := at(d, item("$.spec.scopes", i))
		if bad := badPolicyScope(string(s)); bad != "" {
			p.errorf(pos, ruleName, "the scope %s", bad)
			continue
		}
		out.scopes = append(out.scopes, policyScope{string(s), pos})
	}
	p.policies = append(p.policies, out)
}

// imageSuffix matches a tag or a digest, which the scope of a policy may have.
var imageSuffix = regexp.MustCompile(`^([^@]*/[^@:]+)(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})$`)

// badPolicyScope returns why a text is no scope of a signature policy, or "".
func badPolicyScope(text string) string {
	if m := imageSuffix.FindStringSubmatch(text); m != nil {
		return badScope(m[1], false)
	}
	return badScope(text, true)
}

// policyReader reads what one document requires, and records what is wrong with it.
type policyReader struct {
	doc      RegistriesDocument
	findings []origin.Finding
}

func (r *policyReader) errorf(path, rule, format string, args ...any) {
	r.findings = append(r.findings, origin.Errorf(at(r.doc, path), rule, format, args...))
}

// requirement reads what a signature must be.
func (r *policyReader) requirement(in configv1.ImageSigstoreVerificationPolicy) requirement {
	const path = "$.spec.policy.rootOfTrust"
	out := requirement{Type: "sigstoreSigned", SignedIdentity: r.identity(in.SignedIdentity)}
	root := in.RootOfTrust
	given := 0
	for _, set := range []bool{root.PublicKey != nil, root.FulcioCAWithRekor != nil, root.PKI != nil} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		r.errorf(path, ruleField, "rootOfTrust has exactly one of publicKey, fulcioCAWithRekor and pki")
	case root.PolicyType == configv1.PublicKeyRootOfTrust && root.PublicKey != nil:
		out.KeyData = r.key(path+".publicKey.keyData", root.PublicKey.KeyData)
		if len(root.PublicKey.RekorKeyData) > 0 {
			out.RekorKeyData = r.key(path+".publicKey.rekorKeyData", root.PublicKey.RekorKeyData)
		}
	case root.PolicyType == configv1.FulcioCAWithRekorRootOfTrust && root.FulcioCAWithRekor != nil:
		f := root.FulcioCAWithRekor
		out.Fulcio = &fulcio{
			r.certificates(path+".fulcioCAWithRekor.fulcioCAData", f.FulcioCAData),
			f.FulcioSubject.OIDCIssuer, f.FulcioSubject.SignedEmail,
		}
		out.RekorKeyData = r.key(path+".fulcioCAWithRekor.rekorKeyData", f.RekorKeyData)
		if !strings.HasPrefix(f.FulcioSubject.OIDCIssuer, "https://") || !strings.Contains(f.FulcioSubject.SignedEmail,
			"@") {
			r.errorf(path+".fulcioCAWithRekor.fulcioSubject", ruleField, "fulcioSubject has an oidcIssuer that "+
				"begins with https:// and the signedEmail of the signer")
		}
	case root.PolicyType == configv1.PKIRootOfTrust && root.PKI != nil:
		out.PKI = r.pki(path+".pki", *root.PKI)
	default:
		r.errorf(path+".policyType", ruleField,
			"policyType is %s, %s or %s, and rootOfTrust has the field of that name", configv1.PublicKeyRootOfTrust,
			configv1.FulcioCAWithRekorRootOfTrust, configv1.PKIRootOfTrust)
	}
	return out
}

func (r *policyReader) pki(path string, in configv1.ImagePolicyPKIRootOfTrust) *pki {
	out := &pki{
		Roots: r.certificates(path+".caRootsData", in.CertificateAuthorityRootsData),
		Email: in.PKICertificateSubject.Email, Hostname: in.PKICertificateSubject.Hostname,
	}
	if len(in.CertificateAuthorityIntermediatesData) > 0 {
		out.Intermediates = r.certificates(path+".caIntermediatesData", in.CertificateAuthorityIntermediatesData)
	}
	if out.Email == "" && out.Hostname == "" {
		r.errorf(path+".pkiCertificateSubject", ruleField, "pkiCertificateSubject has the email or the hostname of "+
			"the signer's certificate")
	}
	return out
}

// identity reads which name of an image a signature must have.
func (r *policyReader) identity(in *configv1.PolicyIdentity) *identity {
	const path = "$.spec.policy.signedIdentity"
	if in == nil {
		return &identity{Type: "matchRepoDigestOrExact"}
	}
	name := func(field, text string) string {
		if bad := badScope(text, false); bad != "" {
			r.errorf(path+"."+field, ruleName, "the repository %s", bad)
		}
		return text
	}
	exact, remap := in.PolicyMatchExactRepository, in.PolicyMatchRemapIdentity
	switch {
	case in.MatchPolicy == configv1.IdentityMatchPolicyMatchRepoDigestOrExact && exact == nil && remap == nil:
		return &identity{Type: "matchRepoDigestOrExact"}
	case in.MatchPolicy == configv1.IdentityMatchPolicyMatchRepository && exact == nil && remap == nil:
		return &identity{Type: "matchRepository"}
	case in.MatchPolicy == configv1.IdentityMatchPolicyExactRepository && exact != nil && remap == nil:
		return &identity{Type: "exactRepository", Repository: name("exactRepository.repository",
			string(exact.Repository))}
	case in.MatchPolicy == configv1.IdentityMatchPolicyRemapIdentity && remap != nil && exact == nil:
		return &identity{
			Type: "remapIdentity", Prefix: name("remapIdentity.prefix", string(remap.Prefix)),
			SignedPrefix: name("remapIdentity.signedPrefix", string(remap.SignedPrefix)),
		}
	}
	r.errorf(path, ruleField, "matchPolicy is %s, %s, %s with exactRepository, or %s with remapIdentity",
		configv1.IdentityMatchPolicyMatchRepoDigestOrExact,
		configv1.IdentityMatchPolicyMatchRepository, configv1.IdentityMatchPolicyExactRepository,
		configv1.IdentityMatchPolicyRemapIdentity)
	return nil
}

// key checks a public key.
func (r *policyReader) key(path string, data []byte) []byte {
	block, rest := pem.Decode(data)
	err := errors.New("it is no text of PEM")
	if block != nil {
		if _, err = x509.ParsePKIXPublicKey(block.Bytes); err == nil && len(strings.TrimSpace(string(rest))) > 0 {
			err = errors.New("text follows the key")
		}
	}
	if err != nil {
		r.errorf(path, ruleField, "not a public key: %v. Write the base64 of a file that begins with -----BEGIN "+
			"PUBLIC KEY-----", err)
	}
	return data
}

// certificates checks a bundle of certificates.
func (r *policyReader) certificates(path string, data []byte) []byte {
	n := 0
	for rest := data; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			r.errorf(path, ruleField, "block %d is no certificate: write the base64 of a file of PEM certificates", n+1)
			return data
		}
	}
	if n == 0 {
		r.errorf(path, ruleField, "no certificate: write the base64 of a file that begins with -----BEGIN "+
			"CERTIFICATE-----")
	}
	return data
}

// policyFile is a containers-policy.json(5).
type policyFile struct {
	Default    []requirement                       `json:"default"`
	Transports map[string]map[string][]requirement `json:"transports"`
}

// addPolicies writes the files of signature policies.
func (p *pool) addPolicies(out *ObjectTranslation) {
	if len(p.policies) == 0 {
		return
	}
	namespaces := []string{""}
	for _, s := range p.policies {
		if !slices.Contains(namespaces, s.namespace) {
			namespaces = append(namespaces, s.namespace)
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range namespaces {
		path, first := policyPath, p.policies[0].at
		if namespace != "" {
			path = namespaceDir + namespace + ".json"
			first = p.policies[slices.IndexFunc(p.policies, func(s signaturePolicy) bool {
				return s.namespace == namespace
			})].at
		}
		text, err := json.MarshalIndent(policyFor(p.policies, namespace), "", "  ")
		if err != nil { // unreachable: the file has texts only
			out.Findings = append(out.Findings, origin.Errorf(first, ruleField, "%v", err))
		}
		out.AddFileAt(path, string(text)+"\n", first)
	}
	out.AddFileAt(sigstorePath, sigstoreFile(p.policies, p.sources), p.policies[0].at)
}

// atomicScope matches the scopes that the transport atomic can have. A tag or a digest needs a host, a namespace and a
// stream before it. Runtimes refuse a policy with any other scope of this transport.
var atomicScope = regexp.MustCompile(`^[^/]*(/[^:/]*(/[^:/]*(:[^:/]*)?)?)?$`)

// policyFor returns the policy of a namespace: that of the cluster, and the namespace's own scopes.
func policyFor(policies []signaturePolicy, namespace string) policyFile {
	accept := []requirement{{Type: "insecureAcceptAnything"}}
	docker, atomic := map[string][]requirement{}, map[string][]requirement{}
	for _, s := range policies {
		if s.namespace != "" && s.namespace != namespace {
			continue
		}
		for _, scope := range s.scopes {
			docker[scope.name] = append(docker[scope.name], s.requirement)
			if atomicScope.MatchString(scope.name) {
				atomic[scope.name] = append(atomic[scope.name], s.requirement)
			}
		}
	}
	out := policyFile{Default: accept, Transports: map[string]map[string][]requirement{"docker-daemon": {"": accept}}}
	if len(docker) > 0 {
		out.Transports["docker"], out.Transports["atomic"] = docker, atomic
	}
	return out
}

// holds reports whether every image of a scope is in a wider one.
func holds(wide, scope string) bool {
	if wide == scope || strings.HasPrefix(scope, wide+"/") || strings.HasPrefix(scope, wide+":") &&
		strings.Contains(wide, "/") || strings.HasPrefix(scope, wide+"@") {
		return true
	}
	host, _, _ := strings.Cut(scope, "/")
	return strings.HasPrefix(wide, "*.") && !strings.Contains(host, ":") && strings.HasSuffix(host, wide[1:])
}

// sigstoreFile returns the text of the file that makes runtimes read signatures beside images, for each scope and its
// mirrors.
func sigstoreFile(policies []signaturePolicy, sources map[scope]*source) string {
	names := map[string]bool{}
	for _, s := range policies {
		for _, scope := range s.scopes {
			repository, _, _ := strings.Cut(scope.name, "@")
			if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') &&
				strings.Contains(repository, "/") {
				repository = repository[:i]
			}
			names[repository] = true
			for _, src := range sources {
				for _, m := range slices.Concat(src.digest, src.tag) {
					switch {
					case holds(repository, string(src.name)):
						names[string(m)] = true
					case strings.HasPrefix(repository, string(src.name)+"/"):
						names[string(m)+strings.TrimPrefix(repository, string(src.name))] = true
					}
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("docker:\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "  %q:\n    use-sigstore-attachments: true\n", name)
	}
	return b.String()
}
