/** Repeatable chance: numbers from 0 (inclusive) to 1 (exclusive), the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The seed of this test: AGENTCTL_SEED, or a fresh one, which the test must print. */
export const seed = (): number => Number(process.env.AGENTCTL_SEED ?? Math.floor(Math.random() * 1e9));

/** Whether the long forms of the tests were asked for: `npm run test:long`. */
export const isLong = process.env.AGENTCTL_LONG !== undefined;

/** How often something is left to chance: as a variable says, or else as the form of the tests has it. */
export const rounds = (form: { short: number; long: number }, variable = 'AGENTCTL_KILLS'): number =>
  Number(process.env[variable] ?? (isLong ? form.long : form.short));
