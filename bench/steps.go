package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// sagaSteps of a deploy, in order.
var sagaSteps = []string{"queue", "install", "instances", "ready", "routes", "finalize"}

// steps collects what `fairlead deploy` says of each step's time.
type steps struct {
	took map[string][]float64 // :: step → milliseconds
}

func newSteps() *steps { return &steps{took: map[string][]float64{}} }

// read finds, in each line that begins with a step's name, its last duration.
func (s *steps) read(out string) {
	last := map[string]time.Duration{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(sagaSteps, w) })
		if at < 0 || at > 1 {
			continue
		}
		for _, w := range words[at+1:] {
			if d, err := time.ParseDuration(strings.Trim(w, "(),")); err == nil {
				last[words[at]] = d
			}
		}
	}
	for step, d := range last {
		s.took[step] = append(s.took[step], float64(d)/float64(time.Millisecond))
	}
}

func (s *steps) table() table {
	t := table{head: []string{"step", "median", "longest"}}
	for _, step := range sagaSteps {
		if all := s.took[step]; len(all) > 0 {
			t.add(step, fmt.Sprintf("%.0f ms", median(all)), fmt.Sprintf("%.0f ms", slices.Max(all)))
		}
	}
	return t
}
