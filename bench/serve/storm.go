package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

// within is the time in which all machines of a storm start.
const within = time.Second

// boots simulates machines that boot at the same time. Each has its own session, address and connection.
func (j job) boots(ctx context.Context) outcome {
	ctx, stop := context.WithTimeout(ctx, j.For)
	defer stop()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(j.CA))
	boots := make([]boot, j.Workers)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range boots {
		m := machine{
			url: "https://" + j.Address + j.Path, token: j.Token, digest: j.Digest, from: source(i),
			tls: &tls.Config{RootCAs: roots},
		}
		if j.OneAddress {
			m.from = source(0)
		}
		if len(j.Tokens) > 0 {
			m.token = j.Tokens[i]
		}
		all.Go(func() {
			select {
			case <-time.After(within * time.Duration(i) / time.Duration(j.Workers)):
			case <-ctx.Done():
			}
			boots[i] = m.boot(ctx)
		})
	}
	all.Wait()
	o := outcome{Wall: time.Since(begun)}
	for _, b := range boots {
		o.Latencies = append(o.Latencies, b.took)
		o.Retries += b.retries
		if b.err != nil {
			if o.Failures++; o.Failures <= 3 {
				o.Failed = append(o.Failed, b.err.Error())
			}
		}
	}
	return o
}
