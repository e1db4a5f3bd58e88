package gate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/common/model"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Query evaluates a server's answer to a query. The answer is true if it has at least one sample and no sample is 0.
func Query(value model.Value, server string) poolstate.Gate {
	switch v := value.(type) {
	case *model.Scalar:
		if isFalse(v.Value) {
			return Waits("%s answers %s", server, v.Value)
		}
		return Open()
	case model.Vector:
		return vector(v, server)
	}
	return Waits("%s answers a %s, which is neither true nor false: write a query for one moment, such as up == 1",
		server, kindOf(value))
}

func vector(v model.Vector, server string) poolstate.Gate {
	if len(v) == 0 {
		return Waits("%s answers nothing to the query, which counts as false", server)
	}
	var against []string
	for _, s := range v {
		switch {
		case s.Histogram != nil:
			return Waits("%s answers a histogram, which is neither true nor false: compare it, such as "+
				"histogram_quantile(0.99, …) < 1", server)
		case isFalse(s.Value):
			against = append(against, fmt.Sprintf("%s is %s", s.Metric, strconv.FormatFloat(float64(s.Value), 'g', -1,
				64)))
		}
	}
	switch len(against) {
	case 0:
		return Open()
	case 1:
		return Waits("%s", poolstate.ShortLine(against[0]+", says "+server))
	}
	return Waits("%s", poolstate.ShortLine(fmt.Sprintf("%s and %d more like it, says %s", against[0], len(against)-1,
		server)))
}

// isFalse reports whether a value is 0 or not a number.
func isFalse(v model.SampleValue) bool { return v == 0 || math.IsNaN(float64(v)) }

func kindOf(v model.Value) string {
	if v == nil {
		return "thing that is not there"
	}
	return v.Type().String()
}
