package service

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Word is what a workload says about itself, beside what its host sees of it.
// It can only lower what is believed. The zero value says nothing.
type Word struct {
	Unready      bool             `json:"unready,omitempty"`
	Draining     bool             `json:"draining,omitempty"`
	Dependencies []DependencyWord `json:"dependencies,omitempty"` // by name
}

// DependencyWord is what a workload says of one that it depends on.
type DependencyWord struct {
	Name     string `json:"name"`
	Degraded int    `json:"degraded"` // thousandths
	Detail   string `json:"detail,omitempty"`
}

// Bounds of a word.
const (
	mostDependencies = 64
	longestName      = 100
	longestDetail    = 200
)

// Equal reports whether both say the same.
func (w Word) Equal(x Word) bool {
	return w.Unready == x.Unready && w.Draining == x.Draining && slices.Equal(w.Dependencies, x.Dependencies)
}

// Check says what cannot be said.
func (w Word) Check() error {
	if len(w.Dependencies) > mostDependencies {
		return fmt.Errorf("%d dependencies are named: at most %d", len(w.Dependencies), mostDependencies)
	}
	for i, d := range w.Dependencies {
		switch {
		case d.Name == "" || len(d.Name) > longestName || strings.ContainsFunc(d.Name, func(r rune) bool { return r < ' ' }):
			return fmt.Errorf("a dependency's name has 1 to %d bytes, without control characters", longestName)
		case i > 0 && w.Dependencies[i-1].Name >= d.Name:
			return fmt.Errorf("dependency %q is named twice, or out of order", d.Name)
		case d.Degraded < 0 || d.Degraded > 1000:
			return fmt.Errorf("dependency %q: degraded is between 0 and 1", d.Name)
		case len(d.Detail) > longestDetail:
			return fmt.Errorf("dependency %q: its detail has at most %d bytes", d.Name, longestDetail)
		}
	}
	return nil
}

// Thousandths of a share between 0 and 1.
func Thousandths(share float64) (int, error) {
	if math.IsNaN(share) || share < 0 || share > 1 {
		return 0, errors.New("a share is a number between 0 and 1")
	}
	return int(math.Round(share * 1000)), nil
}
