package eligibility

import (
	"fmt"
	"math/bits"
	"strconv"
)

// sum is a decayed count in 1/65536. It is an integer so that it is the same
// on every machine.
type sum uint64

const one sum = 1 << 16

// decay is what a count loses in a second: a factor in 1/2^32.
type decay uint64

// halving gives the factor that halves in so many seconds: the greatest whose
// power is no more than a half. It is searched rather than computed, since
// floating point may differ between machines.
func halving(seconds int) decay {
	low, high := decay(0), decay(1)<<32-1
	for low < high {
		mid := (low + high + 1) / 2
		if mid.power(seconds) <= 1<<31 {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// power is the factor over so many seconds.
func (d decay) power(seconds int) decay {
	out := decay(1) << 32
	for base := d; seconds > 0; seconds >>= 1 {
		if seconds&1 == 1 {
			out = out.times(base)
		}
		base = base.times(base)
	}
	return out
}

func (d decay) times(o decay) decay {
	hi, lo := bits.Mul64(uint64(d), uint64(o))
	return decay(hi<<32 | lo>>32)
}

// after is what is left of s after so many seconds.
func (d decay) after(s sum, seconds int64) sum {
	switch {
	case s == 0 || seconds <= 0:
		return s
	case seconds > 1<<12: // nothing that is counted here survives so many
		return 0
	}
	hi, lo := bits.Mul64(uint64(s), uint64(d.power(int(seconds))))
	return sum(hi<<32 | lo>>32)
}

// spread is what n results are worth now that came evenly over the span of
// seconds that ends now: clean running is sealed as one row for ten seconds,
// and must not weigh more than the same results told one by one.
func (d decay) spread(n sum, span int) sum {
	if span <= 1 {
		return n
	}
	var worth uint64
	at := decay(1) << 32
	for range span {
		worth += uint64(at)
		at = at.times(d)
	}
	hi, lo := bits.Mul64(uint64(n), worth/uint64(span))
	return sum(hi<<32 | lo>>32)
}

// Permille is a share or a weight in thousandths. In JSON it is a number
// between 0 and 1.
type Permille uint16

// MarshalJSON writes thousandths as a decimal number.
func (p Permille) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(p)/1000, 'g', -1, 64)), nil
}

// UnmarshalJSON reads a number between 0 and 1.
func (p *Permille) UnmarshalJSON(text []byte) error {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return fmt.Errorf("%s is no share: use a number between 0 and 1", text)
	}
	*p = Permille(x*1000 + 0.5)
	return nil
}

// share is part of whole in thousandths, 0 where there is no whole.
func share(part, whole sum) Permille {
	if whole == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(part, whole)), 1000)
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return Permille(q)
}
