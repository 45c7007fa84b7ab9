/**
 * Named places at which a test may have this process die as by kill -9, to show that a restart finds its way from there. Where
 * nothing is armed, passing one costs a comparison.
 */
let armed: { point: string; passes: number } | undefined;

/** `<point>` or `<point>#<n>`: die at the first, or the n-th, pass of that point. */
export function armCrash(text: string | undefined): void {
  const [point, passes = '1'] = (text ?? '').split('#');
  armed = point ? { point, passes: Number(passes) } : undefined;
}

/** A place where dying must do no harm. */
export function crashPoint(area: string, moment: string): void {
  if (armed === undefined || armed.point !== `${area}:${moment}`) return;
  armed.passes -= 1;
  if (armed.passes === 0) process.kill(process.pid, 'SIGKILL');
}
