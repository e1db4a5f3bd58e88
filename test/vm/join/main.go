package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node := flag.String("node-name", "", "name of the Node")
	bootstrap := flag.String("bootstrap-kubeconfig", "", "kubeconfig with the bootstrap token")
	out := flag.String("kubeconfig", "", "kubeconfig to write")
	flag.Parse()
	if err := run(ctx, *node, *bootstrap, *out); err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node, bootstrap, out string) error {
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	config, err := clientcmd.LoadFromFile(bootstrap)
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	rest, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	client, err := typedcertificatesv1.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	cert, err := sign(ctx, client.CertificateSigningRequests(), node, key)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		*user = clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: pemOf("EC PRIVATE KEY", der)}
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return write(out, text)
}

// sign asks for a certificate and waits until somebody has signed it.
func sign(ctx context.Context, requests typedcertificatesv1.CertificateSigningRequestInterface, node string,
	key *ecdsa.PrivateKey,
) ([]byte, error) {
	subject := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, err
	}
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "join-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pemOf("CERTIFICATE REQUEST", der), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a certificate: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
		made.Name).String()})
	if err != nil {
		return nil, fmt.Errorf("waiting for the certificate: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok && len(csr.Status.Certificate) > 0 {
			return csr.Status.Certificate, nil
		}
	}
	return nil, fmt.Errorf("waiting for the certificate: nobody signed %s", made.Name)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write makes the whole file at once: units wait for it to be there, and the power may go at any time.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	half, err := os.OpenFile(path+".half", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := half.Write(text); err != nil {
		return errors.Join(err, half.Close())
	}
	if err := errors.Join(half.Sync(), half.Close()); err != nil {
		return err
	}
	return os.Rename(path+".half", path)
}
