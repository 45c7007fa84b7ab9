import { Box, Static, Text, useInput, useWindowSize } from 'ink';
import type { ReactNode } from 'react';
import { apart, blockRows, type Shown } from './blocks.ts';
import type { Pressed } from './keys.ts';
import { liveRows, type Screen } from './live.ts';
import type { Row } from './rows.ts';
import type { Block, View } from './state.ts';

/** What the driver hands down with each frame. */
export interface AppProps {
  view: View;
  screen: Omit<Screen, 'width' | 'height'>;
  onKey: (key: Pressed) => void;
}

/** The live view of a run: finished blocks above, printed once, and below them what moves. */
export function App({ view, screen, onKey }: AppProps): ReactNode {
  const { columns, rows: height } = useWindowSize();
  useInput((input, key) => onKey({ input, ...key }));
  const width = Math.max(1, columns - 1);
  const shown: Shown = { thinking: screen.thinking, output: screen.output };
  return (
    <>
      <Static items={view.blocks}>
        {(block: Block, index) => {
          const lines = blockRows(block, width, shown);
          const gap = lines.length > 0 && apart(view.blocks, index, shown);
          return <Rows key={block.key} rows={gap ? [[], ...lines] : lines} />;
        }}
      </Static>
      <Rows rows={liveRows(view, { ...screen, width, height: Math.max(1, height - 2) })} />
    </>
  );
}

/** Rows as they are: one line of the terminal each. */
function Rows({ rows }: { rows: Row[] }): ReactNode {
  if (rows.length === 0) return null;
  return (
    <Box flexDirection="column">
      {rows.map((row, n) => (
        // oxlint-disable-next-line react/no-array-index-key -- a row is its place on the screen
        <Line key={n} row={row} />
      ))}
    </Box>
  );
}

function Line({ row }: { row: Row }): ReactNode {
  if (row.length === 0) return <Text> </Text>;
  return (
    <Text wrap="truncate">
      {row.map(({ text, colour, dim, ...style }, n) => (
        // oxlint-disable-next-line react/no-array-index-key -- so is a span
        <Text
          key={n}
          {...(colour ? { color: colour } : {})}
          dimColor={dim ?? false}
          bold={style.bold ?? false}
          italic={style.italic ?? false}
          inverse={style.inverse ?? false}
        >
          {text}
        </Text>
      ))}
    </Text>
  );
}
