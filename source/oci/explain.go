package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
)

// isNotFound reports whether the registry does not have what was requested.
func isNotFound(err error) bool {
	var answer *errcode.ErrorResponse
	return errors.Is(err, errdef.ErrNotFound) || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// explain returns an error as a fault that says what to do. explain drops the registry's texts, because the address may
// lead to any service.
func explain(ctx context.Context, doing string, err error) error {
	var known *fault.Error
	var host *hostError
	var request *url.Error
	switch {
	case errors.As(err, &known):
		return &fault.Error{
			Kind: known.Kind, Reason: known.Reason, Err: fmt.Errorf("%s: %w", doing, known.Err),
			After: known.After,
		}
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: no answer in time", doing))
	case errors.As(err, &host):
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %w", doing, host))
	case errors.Is(err, errInsecure):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, errInsecure))
	case errors.Is(err, access.ErrElsewhere):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, access.ErrElsewhere))
	case errors.Is(err, errNoPassword):
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %w", doing, errNoPassword))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: nothing listens at this address: correct the host and the port of the URL, or start the "+
				"registry", doing))
	case isNotFound(err):
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry has no such repository or artifact, or hides it from these credentials",
				doing))
	}
	if advice := access.CertificateAdvice(err); advice != "" {
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s", doing, advice))
	}
	var answer *errcode.ErrorResponse
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return refusal(doing, http.StatusUnauthorized)
	}
	if errors.As(err, &answer) {
		return refusal(doing, answer.StatusCode)
	}
	if errors.As(err, &request) {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %s", doing, source.Line(request.Err.Error())))
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable,
		fmt.Errorf("%s: the answer is not one of an OCI registry: correct the URL", doing))
}

// refusal returns the error for a status of the registry.
func refusal(doing string, code int) error {
	status := fmt.Sprintf("%d %s", code, http.StatusText(code))
	switch code {
	case http.StatusUnauthorized:
		return fault.NewStalled(v1alpha1.ReasonAuthentication,
			fmt.Errorf("%s: the registry requires credentials, or rejects these: %s (%s)", doing,
				access.CheckAdvice, status))
	case http.StatusForbidden:
		return fault.NewStalled(v1alpha1.ReasonAuthentication,
			fmt.Errorf("%s: the registry refuses these credentials: they need the right to pull (%s)", doing, status))
	case http.StatusTooManyRequests:
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry limits the requests of this controller: increase spec.interval (%s)", doing,
				status))
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the registry does not answer the request (%s)",
		doing, status))
}
