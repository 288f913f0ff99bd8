// What Prometheus itself makes of a scrape and of PromQL expressions, as JSON for the tests.
//
//	promcheck scrape       reads an exposition in the text format; prints each metric with its type, help and labels
//	promcheck expressions  reads a JSON list of expressions; prints for each the metrics and labels that it uses
//
// It ends with 1 and the parser's words where something cannot be read.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type family struct {
	Type   string              `json:"type"`
	Help   string              `json:"help"`
	Series []map[string]string `json:"series"`
	// Of counters and gauges, in the order of the series.
	Values []float64 `json:"values"`
}

func scrape() (map[string]family, error) {
	reader := expfmt.NewTextParser(model.LegacyValidation)
	read, err := reader.TextToMetricFamilies(os.Stdin)
	if err != nil {
		return nil, err
	}
	found := map[string]family{}
	for name, it := range read {
		one := family{Type: it.GetType().String(), Help: it.GetHelp(), Series: []map[string]string{}, Values: []float64{}}
		seen := map[string]bool{}
		for _, metric := range it.GetMetric() {
			series := map[string]string{}
			for _, label := range metric.GetLabel() {
				series[label.GetName()] = label.GetValue()
			}
			// The parser does not look for these, and Prometheus drops them. fmt prints maps in order.
			if key := fmt.Sprintf("%q", series); seen[key] {
				return nil, fmt.Errorf("%s%s is there twice", name, key)
			} else {
				seen[key] = true
			}
			one.Series = append(one.Series, series)
			one.Values = append(one.Values, value(metric))
		}
		found[name] = one
	}
	return found, nil
}

func value(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	case metric.Histogram != nil:
		return float64(metric.Histogram.GetSampleCount())
	}
	return 0
}

type use struct {
	Expression string `json:"expression"`
	// Each selector: the metric's name, the labels that it asks about, and the values that it wants exactly.
	Selectors []selector `json:"selectors"`
	// Labels by which is grouped or joined.
	Grouped []string `json:"grouped"`
}

type selector struct {
	Metric string            `json:"metric"`
	Labels []string          `json:"labels"`
	Equal  map[string]string `json:"equal"`
}

func expressions() ([]use, error) {
	var all []string
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		return nil, err
	}
	uses := []use{}
	for _, text := range all {
		expression, err := parser.ParseExpr(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		one := use{Expression: text, Selectors: []selector{}, Grouped: []string{}}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			switch it := node.(type) {
			case *parser.VectorSelector:
				one.Selectors = append(one.Selectors, selectorOf(it))
			case *parser.AggregateExpr:
				if !it.Without {
					one.Grouped = append(one.Grouped, it.Grouping...)
				}
			case *parser.BinaryExpr:
				if it.VectorMatching != nil {
					one.Grouped = append(one.Grouped, it.VectorMatching.MatchingLabels...)
					one.Grouped = append(one.Grouped, it.VectorMatching.Include...)
				}
			}
			return nil
		})
		sort.Strings(one.Grouped)
		uses = append(uses, one)
	}
	return uses, nil
}

func selectorOf(it *parser.VectorSelector) selector {
	found := selector{Metric: it.Name, Labels: []string{}, Equal: map[string]string{}}
	for _, matcher := range it.LabelMatchers {
		if matcher.Name == labels.MetricName {
			if found.Metric == "" {
				found.Metric = matcher.Value
			}
			continue
		}
		found.Labels = append(found.Labels, matcher.Name)
		if matcher.Type == labels.MatchEqual {
			found.Equal[matcher.Name] = matcher.Value
		}
	}
	return found
}

func main() {
	var (
		answer any
		err    error
	)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "scrape":
		answer, err = scrape()
	case len(os.Args) == 2 && os.Args[1] == "expressions":
		answer, err = expressions()
	default:
		fmt.Fprintln(os.Stderr, "usage: promcheck scrape|expressions < input")
		os.Exit(2)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
