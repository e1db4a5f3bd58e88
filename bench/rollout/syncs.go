package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/bench/plane"
)

// countSyncs returns how often the rollout controller reconciled a pool, and the total time of that.
func countSyncs(ctx context.Context, c *plane.Controller) (count int, took time.Duration, err error) {
	text, err := c.Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer text.Close() //nolint:errcheck // it was only read
	return readSyncs(text)
}

func readSyncs(text io.Reader) (count int, took time.Duration, err error) {
	const name = "controller_runtime_reconcile_time_seconds_"
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, part := range []string{"sum", "count"} {
			value, ok := strings.CutPrefix(lines.Text(), name+part+`{controller="rollout"} `)
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("reading the controller's metrics: %w", err)
			}
			if part == "sum" {
				took = time.Duration(n * float64(time.Second))
			} else {
				count = int(n)
			}
		}
	}
	return count, took, lines.Err()
}
