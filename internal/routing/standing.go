package routing

import "github.com/fairlead-platform/fairlead/view"

// Standing is the table's part of one service: who may route its requests, and
// by what, at one moment.
type Standing struct {
	Service string
	// Published is the newest view; zero is none.
	Published view.Version
	Routers   []Router
	// Callers that are connected, named among Routers or not; More are not named.
	Callers, More int
	// Unheard are relays that did not say who subscribes there.
	Unheard []string
	// Ending says that a person has ended the service.
	Ending bool
}
