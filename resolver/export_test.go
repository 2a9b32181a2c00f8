package resolver

import "google.golang.org/grpc/peer"

// Writes counts the files that were written whole.
func (h *Holder) Writes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writes
}

// Private is the default of HolderConfig.Authenticated.
func Private(p *peer.Peer) bool { return private(p) }
