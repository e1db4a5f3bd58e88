package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/bunsen-os/bunsen/transpile/origin"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// settings checks the fields of a KubeletConfiguration, which are at the given path of the document.
func (t *translator) settings(fields map[string]any, at string, sizing bool) {
	var kc kubelet.KubeletConfiguration
	found := ObjectPart{Object: fields, Path: at, Places: t.In.Origin, What: "KubeletConfiguration"}.Decode(&kc)
	t.Findings = append(t.Findings, found...)
	if origin.Fatal(found) {
		return
	}
	if k := kc.Kind; k != "" && k != "KubeletConfiguration" {
		t.Errorf(at+".kind", "kind", "kind %q: a KubeletConfiguration belongs here", k)
	}
	if v := kc.APIVersion; v != "" && v != kubelet.SchemeGroupVersion.String() {
		t.Errorf(at+".apiVersion", "kind", "apiVersion %q: the kubelet's configuration is read as %s", v,
			kubelet.SchemeGroupVersion)
	}
	for _, r := range t.refusals(kc, sizing) {
		if r.set {
			t.Errorf(at+"."+r.field, "refused-field", "%s is not supported: %s", r.field, r.why)
		}
	}
	if _, named := fields["staticPodPath"]; named && t.In.Pool == controlPlane {
		t.Errorf(at+".staticPodPath", "refused-field", "staticPodPath is not supported on the control plane: the "+
			"kubelet starts the control plane's own pods from that directory")
	}
	for _, r := range invalid(kc) {
		if r.set {
			t.Errorf(at+"."+r.field, "field", "the kubelet does not start with this %s: %s", r.field, r.why)
		}
	}
	if a, b := kc.SystemReservedCgroup, kc.SystemCgroups; a != "" && b != "" && a != b {
		t.Errorf(at+".systemReservedCgroup", "field", "systemReservedCgroup and systemCgroups name two groups; give "+
			"both the same, or only one of them")
	}
}

// invalid are the values that the kubelet's own validation refuses, as far as users write such values. An omitted
// field has the kubelet's default.
func invalid(kc kubelet.KubeletConfiguration) []refusal {
	high, low := orDefault(kc.ImageGCHighThresholdPercent, 85), orDefault(kc.ImageGCLowThresholdPercent, 80)
	whole, critical := kc.ShutdownGracePeriod.Duration, kc.ShutdownGracePeriodCriticalPods.Duration
	policies := []string{"", "none", "best-effort", "restricted", "single-numa-node"}
	lowest := "imageGCLowThresholdPercent"
	if kc.ImageGCLowThresholdPercent == nil {
		lowest = "imageGCHighThresholdPercent"
	}
	return []refusal{
		{"imageGCHighThresholdPercent", high < 0 || high > 100, "it is a number from 0 to 100"},
		{"imageGCLowThresholdPercent", low < 0 || low > 100, "it is a number from 0 to 100"},
		{lowest, low >= high, fmt.Sprintf("imageGCLowThresholdPercent (%d) must be smaller than "+
			"imageGCHighThresholdPercent (%d)", low, high)},
		{"shutdownGracePeriodCriticalPods", critical > whole, fmt.Sprintf("it is a part of shutdownGracePeriod (%s), "+
			"and longer than it", whole)},
		{"shutdownGracePeriod", whole != 0 && whole < time.Second, "it must be at least 1s"},
		{"maxPods", kc.MaxPods < 0, "it must not be negative"},
		{"maxOpenFiles", kc.MaxOpenFiles < 0, "it must not be negative"},
		{"topologyManagerPolicy", !slices.Contains(policies, kc.TopologyManagerPolicy), "write none, best-effort, " +
			"restricted or single-numa-node"},
	}
}

func orDefault(value *int32, other int32) int32 {
	if value == nil {
		return other
	}
	return *value
}

// refusal is the reason why a document may not set a field.
type refusal struct {
	field string
	set   bool
	why   string
}

func (t *translator) refusals(kc kubelet.KubeletConfiguration, sizing bool) []refusal {
	return []refusal{
		{"cgroupDriver", kc.CgroupDriver != "", "it must be the container runtime's, or no pod starts any more"},
		{
			"clusterDNS", len(kc.ClusterDNS) > 0,
			"it is the cluster's address, the same on every node, and given when a node joins",
		},
		{
			"clusterDomain", kc.ClusterDomain != "",
			"it is the cluster's domain, the same on every node, and given when a node joins",
		},
		{
			"featureGates", len(kc.FeatureGates) > 0,
			"a gate that the kubelet of one release does not know keeps the node from coming back; they are the " +
				"cluster's to set",
		},
		{
			"failSwapOn", kc.FailSwapOn != nil,
			"swap is set up with the machine; a node whose swap does not fit would not come back",
		},
		{
			"memorySwap.swapBehavior", kc.MemorySwap.SwapBehavior != "",
			"swap is set up with the machine; a node whose swap does not fit would not come back",
		},
		{
			"systemReserved", sizing && len(kc.SystemReserved) > 0,
			"autoSizingReserved is on and computes it; keep one of the two",
		},
		{
			"staticPodPath", kc.StaticPodPath != "" && t.In.Pool != controlPlane,
			"everyone who can write below it runs pods that the API server never sees; use only \"\"",
		},
	}
}

// reserved removes the fields that OpenShift's kubelet reads from another file. A kubelet whose configuration file has
// another path does not read OpenShift's file, so for such a kubelet reserved keeps the fields.
func (t *translator) reserved(settings map[string]any) map[string]string {
	out := map[string]string{}
	all, _ := settings["systemReserved"].(map[string]any)
	if t.named || len(all) == 0 {
		return out
	}
	rest := maps.Clone(all)
	for _, k := range sized {
		if v, ok := all[k.resource].(string); ok {
			out[k.resource] = v
			delete(rest, k.resource)
		}
	}
	settings["systemReserved"] = rest
	if len(rest) == 0 {
		delete(settings, "systemReserved")
	}
	return out
}

// sized are the variables in the file in which OpenShift's kubelet reads the reserved resources, with their defaults.
var sized = []struct{ resource, variable, standard string }{
	{"memory", "SYSTEM_RESERVED_MEMORY", "1Gi"},
	{"cpu", "SYSTEM_RESERVED_CPU", "500m"},
	{"ephemeral-storage", "SYSTEM_RESERVED_ES", "1Gi"},
}

// sizing writes the file in which OpenShift's kubelet reads the resources that it reserves.
func (t *translator) sizing(auto *bool, reserved map[string]string) {
	if auto == nil && len(reserved) == 0 {
		return
	}
	text := fmt.Sprintf("NODE_SIZING_ENABLED=%t\n", auto != nil && *auto && len(reserved) == 0)
	for _, k := range sized {
		v := k.standard
		if reserved[k.resource] != "" {
			v = reserved[k.resource]
		}
		text += k.variable + "=" + v + "\n"
	}
	from := "$.spec.autoSizingReserved"
	if len(reserved) > 0 {
		from = kubeletSettings + ".systemReserved"
	}
	t.AddFile(sizingPath, text, from)
}

// logLevel writes the drop-in with the kubelet's verbosity.
func (t *translator) logLevel(level *int32) {
	if level == nil {
		return
	}
	if *level < 0 || *level > maxLogLevel {
		t.Errorf("$.spec.logLevel", "field", "logLevel is a number from 0 to %d, and %d is none", maxLogLevel, *level)
		return
	}
	t.AddFile(logPath, fmt.Sprintf("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=%d\"\n", *level), "$.spec.logLevel")
}

// tls adds the settings of a TLS profile to the kubelet's fields and returns them. Fields that the document sets
// override the settings of the profile.
func (t *translator) tls(profile *configv1.TLSSecurityProfile, settings map[string]any) map[string]any {
	if profile == nil {
		return settings
	}
	const at = "$.spec.tlsSecurityProfile"
	spec := configv1.TLSProfiles[profile.Type]
	switch {
	case profile.Type == configv1.TLSProfileCustomType && profile.Custom == nil:
		t.Errorf(at, "field", "tlsSecurityProfile of type Custom says its ciphers and minTLSVersion under `custom`")
		return settings
	case profile.Type == configv1.TLSProfileCustomType:
		spec = &profile.Custom.TLSProfileSpec
	case spec == nil:
		t.Errorf(at+".type", "field", "tlsSecurityProfile type %q is none of Old, Intermediate, Modern and Custom",
			profile.Type)
		return settings
	}
	var suites []any
	for i, c := range spec.Ciphers {
		if name, ok := suite(c); ok {
			suites = append(suites, name)
		} else if profile.Type == configv1.TLSProfileCustomType {
			t.Errorf(fmt.Sprintf("%s.custom.ciphers.%d", at, i), "field", "%q is no cipher that a kubelet has; use "+
				"OpenSSL's names, such as ECDHE-RSA-AES128-GCM-SHA256", c)
		}
	}
	out := map[string]any{"tlsMinVersion": string(spec.MinTLSVersion)}
	if spec.MinTLSVersion != "" && !known(spec.MinTLSVersion) {
		t.Errorf(at+".custom.minTLSVersion", "field", "minTLSVersion %q is none of VersionTLS10 to VersionTLS13",
			spec.MinTLSVersion)
	}
	if spec.MinTLSVersion == "" {
		delete(out, "tlsMinVersion")
	}
	if len(suites) > 0 {
		out["tlsCipherSuites"] = suites
	}
	maps.Copy(out, settings)
	return out
}

// suite returns the kubelet's name for a cipher.
func suite(cipher string) (string, bool) {
	if strings.HasPrefix(cipher, "TLS_") {
		return cipher, true
	}
	name, ok := suites[cipher]
	return name, ok
}

func known(v configv1.TLSProtocolVersion) bool {
	switch v {
	case configv1.VersionTLS10, configv1.VersionTLS11, configv1.VersionTLS12, configv1.VersionTLS13:
		return true
	}
	return false
}

// suites maps the names of ciphers in OpenSSL to their names in a kubelet. A cipher of TLS 1.3 has the same name in
// OpenSSL and in the kubelet.
var suites = map[string]string{
	"ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256":   "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384":   "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-ECDSA-AES128-SHA256":     "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-ECDSA-AES128-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"ECDHE-RSA-AES128-SHA":          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"ECDHE-ECDSA-AES256-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-AES256-SHA":          "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"AES128-GCM-SHA256":             "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"AES256-GCM-SHA384":             "TLS_RSA_WITH_AES_256_GCM_SHA384",
	"AES128-SHA256":                 "TLS_RSA_WITH_AES_128_CBC_SHA256",
	"AES128-SHA":                    "TLS_RSA_WITH_AES_128_CBC_SHA",
	"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
}
