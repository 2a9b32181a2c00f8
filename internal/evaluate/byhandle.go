package evaluate

// byHandle finds instances by their handles, which are given away one after the
// other: pages of them, so that a look-up is no search. A page without an
// instance is dropped.
type byHandle struct {
	pages []*page
	n     int
}

const pageBits = 10

type page struct {
	at [1 << pageBits]*instance
	n  int
}

func (b *byHandle) get(handle uint32) *instance {
	i := handle >> pageBits
	if int(i) >= len(b.pages) || b.pages[i] == nil {
		return nil
	}
	return b.pages[i].at[handle&(1<<pageBits-1)]
}

// set puts x, or nothing, in the handle's place.
func (b *byHandle) set(handle uint32, x *instance) {
	if b.get(handle) == x {
		return
	}
	i := int(handle >> pageBits)
	for i >= len(b.pages) {
		b.pages = append(b.pages, nil)
	}
	if b.pages[i] == nil {
		b.pages[i] = &page{}
	}
	p := b.pages[i]
	at := &p.at[handle&(1<<pageBits-1)]
	if *at != nil {
		b.n, p.n = b.n-1, p.n-1
	}
	if *at = x; x != nil {
		b.n, p.n = b.n+1, p.n+1
	}
	if p.n == 0 {
		b.pages[i] = nil
	}
}
