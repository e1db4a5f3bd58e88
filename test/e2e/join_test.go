package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// signingRequest is what the kubelet of a new node sends, with a key of its own.
func signingRequest(node string) (*certificatesv1.CertificateSigningRequest, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	name := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
	if err != nil {
		return nil, err
	}
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, nil
}

// csr NODE FILE writes a CertificateSigningRequest into a file, as the kubelet of a new node sends it.
func (s *story) csr(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("csr NODE FILE")
	}
	request, err := signingRequest(args[0])
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(request)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(ts.MkAbs(args[1])), text, 0o600)
}

// join NODE KUBECONFIG asks for a node's certificate with a bootstrap kubeconfig, as a kubelet does, waits until
// somebody approves it, and signs it.
func (s *story) join(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("join NODE KUBECONFIG")
	}
	node := args[0]
	bootstrap, err := clientcmd.LoadFromFile(ts.MkAbs(args[1]))
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*bootstrap, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	request, err := signingRequest(node)
	if err != nil {
		return err
	}
	requests := clients.CertificatesV1().CertificateSigningRequests()
	if _, err := requests.Create(context.Background(), request, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("asking for the certificate of %s: %w", node, err)
	}
	err = poll(patience, func() (bool, error) {
		got, err := requests.Get(context.Background(), node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == certificatesv1.CertificateApproved {
				request = got
				return true, nil
			}
		}
		return false, errors.New(got.Status.String())
	})
	if err != nil {
		return fmt.Errorf("waiting for the approval of %s: %w", node, err)
	}
	return s.sign(request)
}

// sign does what kube-controller-manager does with an approved request. The story does it, because no file has the key
// of this cluster's CA. It leaves NODE.kubeconfig.
func (s *story) sign(request *certificatesv1.CertificateSigningRequest) error {
	path, err := s.cluster.identity(request.Name, kubelet(request.Name))
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("reading the certificate of %s: %w", request.Name, err)
	}
	for _, user := range config.AuthInfos {
		request.Status.Certificate = user.ClientCertificateData
	}
	if _, err := s.cluster.clients.CertificatesV1().CertificateSigningRequests().UpdateStatus(context.Background(),
		request, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("signing the request of %s: %w", request.Name, err)
	}
	return nil
}
