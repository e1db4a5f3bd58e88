package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	plainHead  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	objectHead = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\nspec:\n"
)

var (
	start = origin.Pos{File: "pools/worker/kubelet.yaml", Line: 1}
	there = origin.Pos{File: "pools/worker/kubelet.yaml", Line: 77, Column: 3}
)

func input(pool, source, path string) kinds.ObjectInput {
	return kinds.ObjectInput{
		Pool: pool, Source: []byte(source),
		Origin: origin.Map{At: map[string]origin.Pos{"$": start, path: there}},
	}
}

// show lists files as `path: contents`, each with the line of its contents.
func show(t *testing.T, out kinds.ObjectOutput) string {
	t.Helper()
	var b strings.Builder
	for i, f := range out.Config.Ignition.Storage.Files {
		text, err := machineconfig.Contents(f.Contents)
		if err != nil || *f.Mode != 0o644 || !*f.Overwrite {
			t.Errorf("%s: %v", f.Path, err)
		}
		at, _ := out.Origin.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
		fmt.Fprintf(&b, "== %s (%d)\n%s", f.Path, at.Line, text)
	}
	return b.String()
}

func TestADocumentBecomesTheFilesThatTheKubeletReads(t *testing.T) {
	for _, c := range []struct {
		sentence, path, source, want string
		read                         func(kinds.ObjectInput) (kinds.ObjectOutput, []origin.Finding)
	}{
		{
			"a plain configuration is written as it is", "$.kind", plainHead + "maxPods: 200\nevictionHard:\n" +
				"  memory.available: 1Gi\n",
			"== /etc/kubernetes/kubelet.conf (77)\napiVersion: kubelet.config.k8s.io/v1beta1\nevictionHard:\n" +
				"  memory.available: 1Gi\nkind: KubeletConfiguration\nmaxPods: 200\n", kinds.KubeletConfiguration,
		},
		{
			"an annotation names the file, and metadata is not the kubelet's", "$.kind", plainHead + "metadata:\n" +
				"  name: x\n  annotations: {bunsen.dev/path: /etc/kubernetes/kubelet.conf.d/50-bunsen.conf}\n" +
				"maxPods: 20\n",
			"== /etc/kubernetes/kubelet.conf.d/50-bunsen.conf (77)\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
				"kind: KubeletConfiguration\nmaxPods: 20\n", kinds.KubeletConfiguration,
		},
		{
			"the verbosity is a drop-in of the unit", "$.spec.logLevel", objectHead + "  logLevel: 5\n",
			"== /etc/systemd/system/kubelet.service.d/20-logging.conf (77)\n[Service]\n" +
				"Environment=\"KUBELET_LOG_LEVEL=5\"\n", kinds.TranslateKubelet,
		},
		{
			"sizing is a file of its own", "$.spec.autoSizingReserved", objectHead + "  autoSizingReserved: true\n",
			"== /etc/node-sizing-enabled.env (77)\nNODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\n" +
				"SYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n", kinds.TranslateKubelet,
		},
		{
			"what is reserved goes where OpenShift's kubelet reads it", "$.spec.kubeletConfig.systemReserved",
			objectHead + "  kubeletConfig:\n    systemReserved: {memory: 2Gi, pid: \"100\"}\n",
			"== /etc/kubernetes/kubelet.conf (1)\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
				"kind: KubeletConfiguration\nsystemReserved:\n  pid: \"100\"\n" +
				"== /etc/node-sizing-enabled.env (77)\nNODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=2Gi\n" +
				"SYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n", kinds.TranslateKubelet,
		},
		{
			"a kubelet with a file of its own keeps what is reserved", "$.spec.kubeletConfig",
			strings.Replace(objectHead, "{name: a}", "{annotations: {bunsen.dev/path: /etc/k/a.conf}}", 1) +
				"  kubeletConfig:\n    systemReserved: {memory: 2Gi}\n",
			"== /etc/k/a.conf (77)\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
				"systemReserved:\n  memory: 2Gi\n", kinds.TranslateKubelet,
		},
		{
			"a profile stands for ciphers, and what is written wins", "$.spec.kubeletConfig", objectHead + "  " +
				"machineConfigPoolSelector: {matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: " +
				"\"\"}}\n  tlsSecurityProfile: {type: Modern, modern: {}}\n" +
				"  kubeletConfig: {tlsMinVersion: VersionTLS12}\n",
			"== /etc/kubernetes/kubelet.conf (77)\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
				"kind: KubeletConfiguration\ntlsCipherSuites:\n- TLS_AES_128_GCM_SHA256\n- TLS_AES_256_GCM_SHA384\n" +
				"- TLS_CHACHA20_POLY1305_SHA256\ntlsMinVersion: VersionTLS12\n", kinds.TranslateKubelet,
		},
		{
			"a profile alone is a file too", "$.spec.tlsSecurityProfile", objectHead + "  tlsSecurityProfile: {type: " +
				"Custom, custom: {ciphers: [ECDHE-RSA-AES128-GCM-SHA256], minTLSVersion: VersionTLS12}}\n",
			"== /etc/kubernetes/kubelet.conf (77)\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
				"kind: KubeletConfiguration\ntlsCipherSuites:\n- TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n" +
				"tlsMinVersion: VersionTLS12\n", kinds.TranslateKubelet,
		},
	} {
		out, findings := c.read(input("worker", c.source, c.path))
		if origin.Fatal(findings) {
			t.Errorf("%s: %v", c.sentence, findings)
			continue
		}
		if diff := cmp.Diff(c.want, show(t, out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.sentence, diff)
		}
		for _, bad := range append(machineconfig.Validate(out.Config), machineconfig.Check(out.Config)...) {
			t.Errorf("%s: %v", c.sentence, bad)
		}
	}
}

func TestFieldsThatDecideWhetherANodeComesBackAreRefusedAtTheirLine(t *testing.T) {
	for field, value := range map[string]string{
		"cgroupDriver": "systemd", "clusterDNS": "[10.0.0.1]", "clusterDomain": "a.b", "featureGates": "{A: true}",
		"failSwapOn":              "false",
		"memorySwap.swapBehavior": "LimitedSwap", "staticPodPath": "/etc/x",
	} {
		line := field + ": " + value + "\n"
		if a, b, nested := strings.Cut(field, "."); nested {
			line = a + ": {" + b + ": " + value + "}\n"
		}
		_, findings := kinds.KubeletConfiguration(input("worker", plainHead+line, "$."+field))
		refused(t, findings, field+" is not supported: ")
		_, findings = kinds.TranslateKubelet(input("worker", objectHead+"  kubeletConfig:\n    "+line, "$.spec.kubeletConfig."+
			field))
		refused(t, findings, field+" is not supported: ")
	}
	_, findings := kinds.TranslateKubelet(input("worker", objectHead+"  autoSizingReserved: true\n"+
		"  kubeletConfig: {systemReserved: {cpu: 1}}\n", "$.spec.kubeletConfig.systemReserved.cpu"))
	refused(t, findings, "is a number here and should be a text; put it in quotes")
	_, findings = kinds.TranslateKubelet(input("worker", objectHead+"  autoSizingReserved: true\n"+
		"  kubeletConfig: {systemReserved: {cpu: \"1\"}}\n", "$.spec.kubeletConfig.systemReserved"))
	refused(t, findings, "systemReserved is not supported: autoSizingReserved is on")
	_, findings = kinds.KubeletConfiguration(input("master", plainHead+"staticPodPath: \"\"\n", "$.staticPodPath"))
	refused(t, findings, "staticPodPath is not supported on the control plane")
	if _, findings = kinds.KubeletConfiguration(input("worker", plainHead+"staticPodPath: \"\"\nfeatureGates: {}\n"+
		"clusterDNS: []\n", "$")); origin.Fatal(findings) {
		t.Errorf("empty fields are refused: %v", findings)
	}
}

func TestWhatIsNoKubeletConfigIsSaidAtItsLine(t *testing.T) {
	for _, c := range []struct{ sentence, path, source, want string }{
		{"an unknown field", "$.spec.logLvl", objectHead + "  logLvl: 3\n", `unknown field "spec.logLvl": a KubeletConfig has none`},
		{"an unknown field of the kubelet's", "$.spec.kubeletConfig.maxpods", objectHead + "  kubeletConfig: {maxpods: 3}\n", `unknown field "maxpods": a KubeletConfiguration has none`},
		{"a value of another type", "$.spec.kubeletConfig.maxPods", objectHead + "  kubeletConfig: {maxPods: many}\n", "maxPods is a text here and should be a whole number"},
		{"a time that is none", "$.spec.kubeletConfig.nodeStatusUpdateFrequency", objectHead + "  kubeletConfig: {nodeStatusUpdateFrequency: soon}\n", "not a KubeletConfiguration: "},
		{"another kind within", "$.spec.kubeletConfig.kind", objectHead + "  kubeletConfig: {kind: KubeProxyConfiguration}\n", "a KubeletConfiguration belongs here"},
		{"another version within", "$.spec.kubeletConfig.apiVersion", objectHead + "  kubeletConfig: {apiVersion: kubelet.config.k8s.io/v1alpha1}\n", "is read as kubelet.config.k8s.io/v1beta1"},
		{"a verbosity beyond all", "$.spec.logLevel", objectHead + "  logLevel: 11\n", "a number from 0 to 10"},
		{"a selector for another pool", "$.spec.machineConfigPoolSelector", objectHead + "  logLevel: 1\n  machineConfigPoolSelector: {matchLabels: {a: b}}\n", "this selector does not select worker"},
		{"a selector that chooses nothing", "$.spec.machineConfigPoolSelector", objectHead + "  logLevel: 1\n  machineConfigPoolSelector: {}\n", "this selector does not select worker"},
		{"a document that says nothing", "$.spec", objectHead + "  {}\n", "the KubeletConfig says nothing"},
		{"settings as a text", "$.spec.kubeletConfig", objectHead + "  kubeletConfig: |\n    maxPods: 5\n", "spec.kubeletConfig is a mapping"},
		{"settings as a text beside a log level", "$.spec.kubeletConfig", objectHead + "  logLevel: 1\n  kubeletConfig: x\n", "spec.kubeletConfig is a mapping"},
		{"settings as a list", "$.spec.kubeletConfig", objectHead + "  kubeletConfig: [maxPods]\n", "spec.kubeletConfig is a mapping"},
		{"settings that are empty", "$.spec.kubeletConfig", objectHead + "  kubeletConfig: {}\n", "kubeletConfig is empty"},
		{"a low threshold above the high one", "$.spec.kubeletConfig.imageGCLowThresholdPercent", objectHead + "  kubeletConfig: {imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 85}\n", "must be smaller"},
		{"a high threshold below the default of the low one", "$.spec.kubeletConfig.imageGCHighThresholdPercent", objectHead + "  kubeletConfig: {imageGCHighThresholdPercent: 70}\n", "must be smaller"},
		{"a part of a time that is longer", "$.spec.kubeletConfig.shutdownGracePeriodCriticalPods", objectHead + "  kubeletConfig: {shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 60s}\n", "longer than it"},
		{"an unknown policy", "$.spec.kubeletConfig.topologyManagerPolicy", objectHead + "  kubeletConfig: {topologyManagerPolicy: numa}\n", "single-numa-node"},
		{"an unknown profile", "$.spec.tlsSecurityProfile.type", objectHead + "  tlsSecurityProfile: {type: Best}\n", "none of Old, Intermediate, Modern and Custom"},
		{"an unknown cipher", "$.spec.tlsSecurityProfile.custom.ciphers.0", objectHead + "  tlsSecurityProfile: {type: Custom, custom: {ciphers: [ROT13], minTLSVersion: VersionTLS12}}\n", "no cipher that a kubelet has"},
		{"an empty custom profile", "$.spec.tlsSecurityProfile", objectHead + "  tlsSecurityProfile: {type: Custom}\n", "under `custom`"},
		{"two groups for one thing", "$.spec.kubeletConfig.systemReservedCgroup", objectHead + "  kubeletConfig: {systemReservedCgroup: /a, systemCgroups: /b}\n", "name two groups"},
		{"a relative path", "$.metadata.annotations.bunsen.dev/path", strings.Replace(objectHead, "{name: a}", "{annotations: {bunsen.dev/path: etc/a}}", 1) + "  logLevel: 1\n", `"etc/a" is no path of a file`},
		{"a path that climbs", "$.metadata.annotations.bunsen.dev/path", strings.Replace(objectHead, "{name: a}", "{annotations: {bunsen.dev/path: /etc/../a}}", 1) + "  logLevel: 1\n", "is no path of a file"},
	} {
		_, findings := kinds.TranslateKubelet(input("worker", c.source, c.path))
		t.Run(c.sentence, func(t *testing.T) { refused(t, findings, c.want) })
	}
	_, findings := kinds.KubeletConfiguration(input("worker", plainHead, "$"))
	refused(t, findings, "sets nothing")
	_, findings = kinds.KubeletConfiguration(input("worker", "- a\n", "$.x"))
	if !origin.Fatal(findings) {
		t.Error("a list is taken for a configuration")
	}
}

func refused(t *testing.T, findings []origin.Finding, want string) {
	t.Helper()
	for _, f := range findings {
		if strings.Contains(f.Message, want) && !f.Warning && f.At == there {
			return
		}
	}
	t.Errorf("got %+v\nwant %q at %s", findings, want, there)
}

// Where kubeadm made the cluster, the default path holds the kubelet's credentials.
func TestADocumentThatNamesNoFileIsWarnedOf(t *testing.T) {
	source := plainHead + "metadata: {annotations: {bunsen.dev/path: " + kinds.KubeletConfigPath + "}}\nmaxPods: 5\n"
	if _, findings := kinds.KubeletConfiguration(input("worker", source, "$")); len(findings) > 0 {
		t.Errorf("whoever names the file has read of it: %v", findings)
	}
	_, findings := kinds.KubeletConfiguration(input("worker", plainHead+"maxPods: 5\n", "$"))
	if len(findings) != 1 || !findings[0].Warning || !strings.Contains(findings[0].Message, "bunsen.dev/path") {
		t.Errorf("got %v", findings)
	}
}

func TestEveryProfileIsOneThatAKubeletTakes(t *testing.T) {
	for name, profile := range configv1.TLSProfiles {
		out, findings := kinds.TranslateKubelet(input("worker", objectHead+"  tlsSecurityProfile: {type: "+string(name)+"}\n",
			"$"))
		if origin.Fatal(findings) {
			t.Fatal(findings)
		}
		var suites []string
		for _, line := range strings.Split(show(t, out), "\n") {
			if suite, ok := strings.CutPrefix(line, "- "); ok {
				suites = append(suites, suite)
			}
		}
		if _, err := cliflag.TLSCipherSuites(suites); err != nil || len(suites) == 0 ||
			!strings.Contains(show(t, out), string(profile.MinTLSVersion)) {
			t.Errorf("%s: %v %v", name, suites, err)
		}
	}
}

func FuzzKubelet(f *testing.F) {
	f.Add(plainHead + "maxPods: 200\nmemorySwap: {}\n")
	f.Add(objectHead + "  logLevel: 5\n  autoSizingReserved: true\n  tlsSecurityProfile: {type: Old}\n")
	f.Add(objectHead + "  kubeletConfig: {systemReserved: {cpu: \"1\"}, registerWithTaints: [{key: a, effect: " +
		"NoSchedule}]}\n")
	f.Fuzz(func(t *testing.T, source string) {
		for _, read := range []func(kinds.ObjectInput) (kinds.ObjectOutput, []origin.Finding){
			kinds.KubeletConfiguration,
			kinds.TranslateKubelet,
		} {
			out, findings := read(input("worker", source, "$"))
			if origin.Fatal(findings) != !out.Config.HasIgnition {
				t.Errorf("%+v and %v", out, findings)
			}
		}
	})
}
