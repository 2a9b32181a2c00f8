package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// attempt is one lease's exchange with its instance.
type attempt struct {
	x    *exchange
	m    *member
	c    *conn // nil until there is one
	head head
	// declares says that trailers may follow by the names in the head.
	declares bool
	// begun says that something of a response came.
	begun bool
	// heard and answers are how often its instance had been heard, and its group
	// had answered, before the request was sent.
	heard, answers uint64
	// untaken says that the caller did not take a part of the answer.
	untaken bool
	// reuse says that the exchange is complete and the connection good.
	reuse, closed bool
}

// try spends the lease. True means that the request is to be sent again, on
// another lease; false that it was answered.
func (x *exchange) try() (again bool) {
	a := attempt{x: x, m: x.ticket.inst.Owner.(*member)}
	refused := false
	// Closing is the fence: the credit is free only when nothing of the exchange
	// is left, also when the answer is cut off by a panic.
	defer func() {
		a.close()
		if refused {
			a.m.refused()
		} else {
			a.m.end()
		}
	}()
	err := a.exchange()
	a.count(err)
	if err == nil {
		return false
	}
	refused = a.c == nil && errors.Is(err, syscall.ECONNREFUSED)
	a.close() // before the answer, so that what was written does not change any more
	return a.failed(err)
}

func (a *attempt) close() {
	if a.c == nil || a.closed {
		return
	}
	a.closed = true
	if a.x.body.detach(a.c, a.reuse) {
		a.m.pool.put(a.c)
	}
}

// failed decides what an error means. True: send it again.
func (a *attempt) failed(err error) bool {
	x := a.x
	untouched := a.c == nil || a.c.written.Load() == 0
	switch {
	case x.end.came():
		x.gone()
		return false
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		text := " sent no byte of a response within "
		if a.begun {
			text = " did not send the whole head of a response within "
		}
		x.fail(http.StatusGatewayTimeout, "deadline", a.where()+text+x.svc.firstByte().String())
		return false
	case errors.Is(err, errMalformed) || errors.Is(err, errHeadTooLarge):
		x.fail(http.StatusBadGateway, "bad-response", a.where()+": "+err.Error())
		return false
	}
	may := untouched || x.idempotent()
	if untouched {
		x.unsent++
	}
	// Where nothing was sent there is nothing to send again: of many instances
	// that died at once any number may be met.
	within := x.resends+1-x.unsent <= maxResends && x.unsent <= maxUnsent
	if may && !x.informed && x.body.resendable() && within && x.remaining() > 0 {
		x.ticket.Avoid = a.m.inst
		return true
	}
	x.fail(http.StatusBadGateway, "instance-failed", a.where()+failure(err, untouched, x.resends))
	return false
}

// failure says in words what befell the request.
func failure(err error, untouched bool, resends int) string {
	text := " could not be reached"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = " refused the connection"
	case !untouched:
		text = " closed the connection before it answered; the request may have been executed"
	}
	if resends > 0 {
		text += ", and so did others before it"
	}
	return text
}

func (a *attempt) where() string {
	return a.x.where() + ", revision " + a.m.inst.Revision + ": instance " + a.m.inst.ID
}

// exchange sends the request and forwards the response. An error means that
// nothing was forwarded but, perhaps, informational responses.
func (a *attempt) exchange() error {
	x := a.x
	c, err := a.m.pool.get(x.end, x.by)
	if err != nil {
		return err
	}
	a.c = c
	a.asks()
	// A caller that hangs up cancels its request at the instance, as does a body
	// that fails.
	if !x.end.guard(c) {
		return errEnded
	}
	defer x.end.release()
	if err := c.tcp.SetDeadline(x.by); err != nil {
		return err
	}
	x.writeHead(c)
	expect := x.expects() && !x.body.started
	if !expect {
		if err := a.send(); err != nil {
			return err
		}
	} else if err := c.bw.Flush(); err != nil {
		return err
	}
	h, err := a.answer(expect)
	if err != nil {
		return err
	}
	f, err := h.framing(x.r.Method)
	if err != nil {
		return err
	}
	if h.status == http.StatusSwitchingProtocols {
		return a.switchProtocols(h)
	}
	a.head, a.declares = h, f.chunked && len(h.header["Trailer"]) > 0
	return a.respond(f)
}

// send lets the body follow the head.
func (a *attempt) send() error {
	x := a.x
	if x.body.src != nil {
		// The response's deadline is the only one: a long upload is no failure.
		if err := a.c.tcp.SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
	}
	return x.body.attach(a.c, x.by)
}

// answer reads the head of the final response, and forwards informational ones.
func (a *attempt) answer(expect bool) (head, error) {
	x, c := a.x, a.c
	if expect {
		if err := a.awaitContinue(); err != nil {
			return head{}, err
		}
	}
	for range maxInforms + 1 {
		if _, err := c.br.Peek(1); err != nil {
			return head{}, noAnswer(err)
		}
		a.begun = true
		a.m.shard.answers.Add(1)
		h, err := c.readHead()
		if err != nil {
			return head{}, noAnswer(err)
		}
		switch {
		case h.status == http.StatusContinue:
			if expect {
				x.body.start()
				if err := a.send(); err != nil {
					return head{}, err
				}
				expect = false
			}
		case h.status < 200 && h.status != http.StatusSwitchingProtocols:
			x.inform(h)
		default:
			return h, x.body.answered(c)
		}
	}
	return head{}, fmt.Errorf("%w: it sent more than %d informational responses", errMalformed, maxInforms)
}

// awaitContinue gives an instance a second to ask for the body; one that says
// nothing is sent it.
func (a *attempt) awaitContinue() error {
	x, c := a.x, a.c
	if err := c.tcp.SetReadDeadline(earlier(x.by, time.Now().Add(continueWait))); err != nil {
		return err
	}
	_, err := c.br.Peek(1)
	if e := c.tcp.SetReadDeadline(x.by); e != nil {
		return e
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return noAnswer(err)
	}
	x.body.start()
	return a.send()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// noAnswer names an end of the stream where a response was due.
func noAnswer(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
