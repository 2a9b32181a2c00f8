package identity

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func TestRefusedHandshakesAreSpokenOfOncePerSourceAndMinuteWithTheirNumber(t *testing.T) {
	var l refusalLog
	now := time.Now()
	one := source(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1000})
	if again := source(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2000}); one != again || one != "10.0.0.1" {
		t.Errorf("two connections of one source are %s and %s", one, again)
	}
	if _, is := l.say(one, now); !is {
		t.Error("the first is not spoken of")
	}
	for i := range 59 {
		if _, is := l.say(one, now.Add(time.Duration(i+1)*time.Second)); is {
			t.Fatalf("it is spoken of again after %d s", i+1)
		}
	}
	if _, is := l.say("10.0.0.2", now); !is {
		t.Error("another source is not spoken of")
	}
	if unsaid, is := l.say(one, now.Add(time.Minute)); !is || unsaid != 59 {
		t.Errorf("after a minute: %v, %d were not spoken of", is, unsaid)
	}
	if unsaid, is := l.say(one, now.Add(2*time.Minute)); !is || unsaid != 0 {
		t.Errorf("after another: %v, %d were not spoken of", is, unsaid)
	}
}

func TestManySourcesOfRefusedHandshakesTakeNoRoomWithoutEnd(t *testing.T) {
	var l refusalLog
	now := time.Now()
	spoken := 0
	for i := range 3 * mostSources {
		if _, is := l.say(fmt.Sprint(i), now); is {
			spoken++
		}
	}
	if len(l.sources) > mostSources+1 || spoken > mostSources+1 {
		t.Errorf("%d sources are remembered, %d were spoken of", len(l.sources), spoken)
	}
	if l.say("late", now.Add(refusalsEvery)); len(l.sources) > 2 {
		t.Errorf("%d are remembered after their time", len(l.sources))
	}
}
