// The floor of P8: a node process that does nothing. With `wait` as its argument it stays.
if (process.argv[2] === 'wait') {
  setInterval(() => {}, 1_000_000);
  process.on('disconnect', () => process.exit(0));
}
