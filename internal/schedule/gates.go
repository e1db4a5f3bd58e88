package schedule

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func checkGates(c *checker, gates []v1alpha1.HealthGate) {
	var names []string
	for i, g := range gates {
		path := fmt.Sprintf("spec.gates[%d]", i)
		switch {
		case g.Name == "":
			c.wrong(path+".name", "the gate has no name; write one that people know it by")
		case slices.Contains(names, g.Name):
			c.wrong(path+".name", "another gate is named %s too; write another name", g.Name)
		case len(g.Name) > validation.DNS1123LabelMaxLength:
			c.wrong(path+".name", "it is longer than %d characters", validation.DNS1123LabelMaxLength)
		}
		names = append(names, g.Name)
		checkGate(c, path, g)
	}
}

func checkGate(c *checker, path string, g v1alpha1.HealthGate) {
	asked := 0
	for _, is := range []bool{g.Ready != nil, g.DaemonSets != nil, g.Job != nil, g.Prometheus != nil} {
		if is {
			asked++
		}
	}
	if asked != 1 {
		c.wrong(path, "it asks %d questions; write exactly one of ready, daemonSets, job and prometheus, and a gate "+
			"of its own for each other", asked)
	}
	if g.Ready != nil && g.Ready.For.Duration <= 0 {
		c.wrong(path+".ready.for", "%s is no time to be Ready for; write a duration such as 5m", g.Ready.For.Duration)
	}
	if g.DaemonSets != nil && len(g.DaemonSets) == 0 {
		c.wrong(path+".daemonSets", "it names none; write namespace and name of each")
	}
	checkLength(c, path+".daemonSets", len(g.DaemonSets), 20)
	for i, d := range g.DaemonSets {
		checkObjectName(c, fmt.Sprintf("%s.daemonSets[%d]", path, i), d)
		if slices.Contains(g.DaemonSets[:i], d) {
			c.wrong(fmt.Sprintf("%s.daemonSets[%d]", path, i), "%s/%s is named twice; remove one", d.Namespace, d.Name)
		}
	}
	if g.Job != nil {
		checkObjectName(c, path+".job.cronJob", g.Job.CronJob)
	}
	if g.Prometheus != nil {
		checkPrometheus(c, path+".prometheus", *g.Prometheus)
	}
}

func checkObjectName(c *checker, path string, o v1alpha1.ObjectName) {
	if len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		c.wrong(path+".namespace", "%q is no namespace; write the one that the object is in", o.Namespace)
	}
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 {
		c.wrong(path+".name", "%q is no name of an object; write its metadata.name", o.Name)
	}
}

func checkPrometheus(c *checker, path string, g v1alpha1.PrometheusGate) {
	const example = "http://prometheus.monitoring.svc:9090"
	u, err := url.Parse(g.URL)
	switch {
	case err != nil: // The text of the error is not used, because it may contain a password.
		c.wrong(path+".url", "it is no URL; write one such as %s", example)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.wrong(path+".url", "%q is no URL of a server; write one such as %s", u.Redacted(), example)
	case u.User != nil:
		c.wrong(path+".url", "it has a user and a password, which all who read the policy would know; remove them, "+
			"and let the network say who may ask")
	case u.RawQuery != "" || u.Fragment != "":
		c.wrong(path+".url", "it has a part after the path; write the server alone, such as %s, and the question "+
			"as query", example)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1") ||
		strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1/query"):
		c.wrong(path+".url", "the path of the API is added by itself; write what comes before /api/v1")
	}
	if strings.TrimSpace(g.Query) == "" {
		c.wrong(path+".query", "there is no query; write one that is true while the service is healthy, such as "+
			"sum(up{job=\"ingress\"}) >= 3")
	}
}
