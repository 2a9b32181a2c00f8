package lease

// Offer tells of an instance, which is new, offered again after it refused, or
// known, and grants it credits. It returns the instance. An instance that is
// terminating stays so: the credits go back at once.
func (q *Queue) Offer(id, revision, minted string, grant int) (*Instance, []Command) {
	q.begin()
	grant = max(0, grant)
	in := q.instances[id]
	if in == nil {
		in = &Instance{ID: id, Revision: revision, Minted: minted}
		q.instances[id] = in
	}
	if in.state == Terminating {
		if grant > 0 {
			q.do(Command{Verb: Return, Instance: in, N: grant})
		}
		return in, q.do(Command{Verb: Withdraw, Instance: in})
	}
	in.owned += grant
	in.owed = max(0, in.owed-grant)
	if in.state == Live && in.open && !q.relented {
		q.free += grant
	} else {
		in.state = Live
		q.reopen()
	}
	return in, q.settle()
}

// Terminate withdraws an instance: no lease any more, idle credits return at
// once, and leased ones as they end.
func (q *Queue) Terminate(id string) []Command {
	q.begin()
	in := q.instances[id]
	if in == nil {
		return nil
	}
	if n := in.idle(); n > 0 {
		q.do(Command{Verb: Return, Instance: in, N: n})
		in.owned -= n
	}
	in.state, in.owed = Terminating, 0
	q.reopen()
	q.do(Command{Verb: Withdraw, Instance: in})
	return q.settle()
}

// Recall asks for n credits back: idle ones return at once, others as their
// leases end. A repeated recall does not add to one that is still open.
func (q *Queue) Recall(id string, n int) []Command {
	q.begin()
	in := q.instances[id]
	if in == nil || in.state != Live || n <= 0 {
		return nil
	}
	if give := min(n, in.idle()); give > 0 {
		in.owned -= give
		n -= give
		if in.open {
			q.free -= give
		}
		q.do(Command{Verb: Return, Instance: in, N: give})
	}
	in.owed = min(max(in.owed, n), in.owned)
	return q.settle()
}

// Refused says that the instance refused a connection of a lease, which ends
// here. Its idle credits end with it; those still in use return as they end.
// It is not used until it is offered again.
func (q *Queue) Refused(in *Instance) []Command {
	q.begin()
	in.inUse--
	if in.state == Gone {
		return nil
	}
	n := in.idle()
	in.owned -= n
	if in.state == Live {
		in.state, in.owed = Refused, 0
	}
	if n > 0 {
		q.do(Command{Verb: Refuse, Instance: in, N: n})
	}
	q.reopen()
	return q.settle()
}

// Gone says that the process ended. Its credits end here, without a return.
func (q *Queue) Gone(id string) []Command {
	q.begin()
	in := q.instances[id]
	if in == nil {
		return nil
	}
	in.state, in.owned, in.owed = Gone, 0, 0
	delete(q.instances, id)
	q.reopen()
	q.do(Command{Verb: Close, Instance: in})
	return q.settle()
}
