package agent

// kubeconfigPath is the bootstrap kubeconfig of the kubelet. Only root may read the kubeconfig, even if a config does
// not set its mode.
const kubeconfigPath = "/etc/kubernetes/kubeconfig"
