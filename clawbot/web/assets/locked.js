// A cookie for this site alone is not sent when a link on another site led here through the
// address with the token. Coming from our own page it is: look again, once.

const MARK = "clawbot.looked-again";

if (sessionStorage.getItem(MARK) === null) {
  sessionStorage.setItem(MARK, "yes");
  if (location.search === "") location.replace("/");
} else {
  sessionStorage.removeItem(MARK);
}
