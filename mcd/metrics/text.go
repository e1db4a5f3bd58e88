package metrics

import (
	"strconv"
	"strings"
)

// metric describes one metric.
type metric struct {
	name, kind, help string
	labels           []string
	value            func(*Set) *told
}

// table has all metrics in the order of the output.
var table = []metric{
	{"mcd_config_drift", "gauge", "Since when the disk is not as the config says, in seconds since 1970; 0 when it is.", nil, func(s *Set) *told { return &told{value: s.drift} }},
	{"mcd_host_os_and_version", "gauge", "1, with what runs on this machine.", []string{"os", "version"}, func(s *Set) *told { return s.boot }},
	{"mcd_pivot_errors_total", "counter", "Parts of the OS that could not be staged.", nil, func(s *Set) *told { return &told{value: s.pivotErrors} }},
	{"mcd_reboots_failed_total", "counter", "Reboot requests that the machine rejected.", nil, func(s *Set) *told { return &told{value: s.rebootErrors} }},
	{"mcd_state", "gauge", "Time of the last report of the Node's state, in seconds since 1970.", []string{"state", "reason"}, func(s *Set) *told { return s.state }},
	{"mcd_update_state", "gauge", "When the newest update ended, in seconds since 1970; err is empty when it ended well.", []string{"config", "err"}, func(s *Set) *told { return s.update }},
}

// contentType is the content type of the text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// String returns the metrics in the Prometheus text format, without metrics that have no value yet.
func (s *Set) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, m := range table {
		is := m.value(s)
		if is == nil {
			continue
		}
		b.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n" + m.name)
		for i, label := range m.labels {
			sign := ","
			if i == 0 {
				sign = "{"
			}
			b.WriteString(sign + label + `="` + escape.Replace(is.labels[i]) + `"`)
		}
		if len(m.labels) > 0 {
			b.WriteString("}")
		}
		b.WriteString(" " + strconv.FormatFloat(is.value, 'f', -1, 64) + "\n")
	}
	return b.String()
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
