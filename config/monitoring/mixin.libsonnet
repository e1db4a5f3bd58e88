// Alerts and the dashboard as a monitoring mixin, for stacks of Prometheus and Grafana that Jsonnet builds.
{
  prometheusAlerts+:: std.parseYaml(importstr 'rules.yaml'),
  grafanaDashboards+:: { 'bunsen.json': import 'dashboard.json' },
}
