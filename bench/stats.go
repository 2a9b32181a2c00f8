package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// median of what was measured; zero of nothing.
func median[T cmp.Ordered](all []T) T {
	s := slices.Sorted(slices.Values(all))
	if len(s) == 0 {
		var none T
		return none
	}
	return s[(len(s)-1)/2]
}

// ratios of two series, round by round.
func ratios(over, under []float64) []float64 {
	all := make([]float64, 0, len(over))
	for i := range min(len(over), len(under)) {
		all = append(all, over[i]/under[i])
	}
	return all
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}

// spread shows the least and the most beside a median.
func spread(all []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(all), slices.Min(all), slices.Max(all))
}
