package kube

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	// nodeUser begins the names of the users that are nodes.
	nodeUser = "system:node:"
	// boundNode is the extra field with the node to which a token of a service account is bound.
	boundNode = "authentication.kubernetes.io/node-name"
)

// identity is who the daemon is for the API server.
type identity struct {
	// user is the name of the user; "" if it is not known.
	user string
	// node is the node to which a token is bound; "" for none.
	node string
}

// nodeName returns the name of the Node object of this machine. The kubelet's identity has it, and --node-name, which
// is the parameter said, only confirms it: a host name differs from the name of the Node on many machines. For an
// identity that is of no node, said is the name.
func (i identity) nodeName(said string) (string, error) {
	name, is := strings.CutPrefix(i.user, nodeUser)
	if !is {
		name = i.node
	}
	switch {
	case name == "" && said != "":
		return said, nil
	case name == "" && i.user == "":
		return "", errors.New("the credentials in the kubeconfig do not name a node: name the Node with --node-name")
	case name == "":
		return "", fmt.Errorf("the kubeconfig has the credentials of %q, which is no node: name the kubeconfig of the "+
			"kubelet with --kubeconfig, or the Node with --node-name", i.user)
	case said == "" || strings.EqualFold(said, name): // Nodes have names in lower case, and hosts may not.
		return name, nil
	case is:
		return "", fmt.Errorf("this kubelet is %s, --node-name says %s: leave --node-name out, or name the kubeconfig "+
			"of that node's kubelet with --kubeconfig", name, said)
	}
	return "", fmt.Errorf("the token is bound to node %s, --node-name says %s: correct --node-name", name, said)
}

// certificateIdentity returns the identity in the client certificate of a kubeconfig; false if it has none.
func certificateIdentity(config *rest.Config) (who identity, has bool, _ error) {
	if user := config.Impersonate.UserName; user != "" {
		return identity{user: user}, true, nil
	}
	if len(config.CertData) == 0 && config.CertFile == "" {
		return who, false, nil
	}
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return who, true, fmt.Errorf("reading the client certificate of the kubeconfig: %w", err)
	}
	text := loaded.CertData
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" { // A kubelet's file also has the key.
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return who, true, fmt.Errorf("reading the client certificate of the kubeconfig: %w", err)
		}
		return identity{user: cert.Subject.CommonName}, true, nil
	}
	return who, true, errors.New("reading the client certificate of the kubeconfig: the file has no certificate")
}

// identify returns the identity of the daemon for the API server. For a token, or a program that gets one, identify
// asks the API server.
func identify(ctx context.Context, config *rest.Config) (identity, error) {
	who, has, err := certificateIdentity(config)
	if has || err != nil {
		return who, err
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.ExecProvider == nil &&
		config.AuthProvider == nil && config.Username == "" {
		return who, nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return who, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	answer, err := client.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).
		Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": authenticationv1.SchemeGroupVersion.String(), "kind": "SelfSubjectReview",
		}}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // The API server does not say it.
		return who, nil
	}
	if err != nil {
		return who, fmt.Errorf("asking the API server which node this machine is: %w", markUnreachable(err))
	}
	var review authenticationv1.SelfSubjectReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &review); err != nil {
		return who, fmt.Errorf("asking the API server which node this machine is: %w", err)
	}
	who.user = review.Status.UserInfo.Username
	if bound := review.Status.UserInfo.Extra[boundNode]; len(bound) == 1 {
		who.node = bound[0]
	}
	return who, nil
}
