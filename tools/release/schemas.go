package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// writeSchemas writes the JSON schemas of documents and objects, as `bunsen schema` of this commit prints them. The
// examples name them by the address of a file of the latest release.
func writeSchemas(ctx context.Context, o buildOptions) error {
	out, err := filepath.Abs(filepath.Join(o.Out, "schemas"))
	if err != nil {
		return fmt.Errorf("writing the schemas: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/bunsen", "schema", "--out", out)
	if o.Bin != "" {
		program, err := filepath.Abs(filepath.Join(o.Bin, "bunsen"))
		if err != nil {
			return fmt.Errorf("writing the schemas: %w", err)
		}
		cmd = exec.CommandContext(ctx, program, "schema", "--out", out)
	}
	cmd.Dir = o.Root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing the schemas: %w\n%s", err, text)
	}
	return nil
}
