//! Records of jobs.

/// Every kind of step, one that waits for ever, one that was cut, and one that is too large.
pub(crate) fn records() -> Vec<(&'static str, Vec<u8>)> {
    let all = "towpath-job,1,3,tracker ssdp\n\
               rank,0,8\nw,1500\ns,1,7,2000\nr,2,-1,10\nb,0,64\ng,2,9\na,100\nx,1,2,3\nw,20\n\
               rank,1,6\nr,0,7,2000\nb,0,64\ng,2,0\na,0\nx,0,0,0\nw,1\n\
               rank,2,5\ns,0,-1,10\nb,0,64\ng,2,5\na,7\nx,9,9,9\nend\n";
    let waits = "towpath-job,1,2,test\nrank,0,1\nr,1,0,1\nrank,1,2\nw,5\nr,0,0,1\nend\n";
    let large = "towpath-job,1,1000000000,test\nrank,0,1000000000\n";
    vec![
        ("all", all.into()),
        ("waits", waits.into()),
        ("cut", all.as_bytes()[..90].to_vec()),
        ("large", large.into()),
    ]
}
