declare module 'autocannon' {
  /** A request of the load. */
  interface Request {
    method?: string;
    path?: string;
    headers?: Record<string, string>;
    body?: string;
    setupRequest?: (request: Request) => Request;
  }
  interface Options extends Request {
    url: string;
    connections: number;
    duration: number;
    /** Requests per second of all connections together; as many as come when absent. */
    overallRate?: number;
    requests?: Request[];
  }
  interface Result {
    requests: { average: number; total: number; sent: number };
    latency: { p50: number; p99: number };
    '2xx': number;
    non2xx: number;
    errors: number;
    timeouts: number;
    duration: number;
  }
  export default function autocannon(options: Options): Promise<Result>;
}
