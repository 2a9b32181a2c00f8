package discovery

// Follows says that the published view of a service holds what its routes name,
// as they are by a commit of the store or a later one; or why not yet.
func (p *Plane) Follows(service string, commit uint64) (why string, follows bool) {
	t := p.current()
	if t == nil {
		return "the discovery plane has not begun yet", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, shed := t.tempo.Sheds()
	switch {
	case t.routesAt < commit:
		return "the discovery plane has not seen the routes yet", false
	case t.eval.View(service) == nil:
		return "no instance is known that the routes name", false
	case t.turning[service] && shed:
		return "there is more to send than can be sent, and additions wait", false
	case t.turning[service]:
		return "it is about to be published", false
	}
	return "", true
}
