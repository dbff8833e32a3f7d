// A short tone for something new that waits. Off until a person switches it on.

const TONE_HERTZ = 660;
const TONE_SECONDS = 0.18;
/** Many asks at once are one tone. */
const PAUSE_MS = 2_000;

let context: AudioContext | undefined;
let playedAt = 0;

export function playTone(now = Date.now()): void {
  if (now - playedAt < PAUSE_MS) return;
  playedAt = now;
  context ??= new AudioContext();
  // A browser that nobody has clicked in yet keeps silent, which is its right.
  if (context.state === "suspended") void context.resume().catch(() => undefined);
  const tone = context.createOscillator();
  const volume = context.createGain();
  tone.frequency.value = TONE_HERTZ;
  volume.gain.setValueAtTime(0.08, context.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.001, context.currentTime + TONE_SECONDS);
  tone.connect(volume).connect(context.destination);
  tone.start();
  tone.stop(context.currentTime + TONE_SECONDS);
}
